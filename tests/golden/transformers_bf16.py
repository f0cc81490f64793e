#!/usr/bin/env python3
"""How far is transformers itself off in bfloat16 on a golden case?  Writes transformers_bf16.json into each folder.

    python3 tests/golden/transformers_bf16.py tests/data/models/*/

Needs torch, transformers, peft and safetensors.  Model and adapter are loaded as they are and cast to bfloat16 as a whole; every
hidden state, the logits and every LoRA gradient are compared with the case's float32 values, relative to their norm, the loss
relative to its value.  Runs on the CPU.
"""
import json
import os
import sys

import peft
import safetensors.torch
import torch
import transformers


def error(got, want):
    got, want = got.double().flatten(), want.double().flatten()
    return float((got - want).norm() / want.norm()) if want.norm() > 0 else 0.0


def measure(folder, dtype):
    golden = safetensors.torch.load_file(os.path.join(folder, "golden.safetensors"))
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager")
    model = peft.PeftModel.from_pretrained(model, os.path.join(folder, "adapter"), is_trainable=True)
    model = model.to(dtype).eval()
    out = model(
        input_ids=golden["input_ids"].long()[None], labels=golden["labels"].long()[None], output_hidden_states=True, use_cache=False
    )
    out.loss.backward()
    errors = {f"hidden.{i}": error(h[0].detach(), golden[f"hidden.{i}"]) for i, h in enumerate(out.hidden_states)}
    errors["logits"] = error(out.logits[0].detach(), golden["logits"])
    errors["loss"] = abs(float(out.loss.detach()) / float(golden["loss"][0]) - 1)
    for name, p in model.named_parameters():
        if "lora_" in name:
            key = "grad." + name.replace(".default.", ".")
            errors[key] = error(p.grad, golden[key])
    missing = [k for k in golden if k.startswith("grad.") and k not in errors]
    if missing:
        sys.exit(f"{folder}: no gradient of {missing[0]}")
    return errors


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    torch.manual_seed(0)
    for folder in sys.argv[1:]:
        exact = measure(folder, torch.float32)
        errors = measure(folder, torch.bfloat16)
        print(f"{folder}: worst in float32 {max(exact.values()):.1e}, in bfloat16 {max(errors.values()):.1e}")
        made = f"transformers {transformers.__version__}, PEFT {peft.__version__}, torch {torch.__version__}, bfloat16, CPU"
        path = os.path.join(folder, "transformers_bf16.json")
        with open(path + ".tmp", "w") as f:
            json.dump({"made_with": made, "errors": {k: float(f"{v:.3g}") for k, v in errors.items()}}, f, indent=1)
            f.write("\n")
        os.replace(path + ".tmp", path)


main()
