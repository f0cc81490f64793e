#!/usr/bin/env python3
"""Makes a case of whole-model gradients from a model folder: what transformers and PEFT compute in float32, and how far they are
off in bfloat16.

    python3 tests/golden/make_case.py MODEL OUT --tokens 3000 [--documents 5] [--rank 4] [--seed 1] [--device cuda]
    golden_bf16 --gradients --device cuda OUT

OUT gets links to MODEL's files, adapter/ (a fresh LoRA of that rank whose lora_B is random, so that every gradient is there),
golden.safetensors (input_ids, labels, document_starts, loss, gradients; no logits: they would not fit) and transformers_bf16.json.
Documents are run one by one and their gradients added up, each position weighted alike: what a packed sequence means.  Needs torch,
transformers, peft and safetensors; float32 products without TF32.
"""
import argparse
import gc
import json
import os

import peft
import safetensors.torch
import torch
import transformers

TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "in_proj_qkv", "in_proj_z", "out_proj"]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("out")
    p.add_argument("--tokens", type=int, required=True)
    p.add_argument("--documents", type=int, default=1)
    p.add_argument("--rank", type=int, default=4)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--device", default="cpu")
    return p.parse_args()


def load(a, dtype):
    model = transformers.AutoModelForCausalLM.from_pretrained(a.model, dtype=dtype, attn_implementation="sdpa")
    names = {n.rsplit(".", 1)[-1] for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)}
    adapter = os.path.join(a.out, "adapter")
    if not os.path.isdir(adapter):
        config = peft.LoraConfig(r=a.rank, lora_alpha=2 * a.rank, target_modules=sorted(names & set(TARGETS)))
        fresh = peft.get_peft_model(model, config, autocast_adapter_dtype=False)
        with torch.no_grad():
            for n, p in fresh.named_parameters():
                if "lora_B" in n:
                    p.normal_(0, 0.02)
        fresh.save_pretrained(adapter)
        model = fresh.unload()
    model = peft.PeftModel.from_pretrained(model, adapter, is_trainable=True)
    return model.to(dtype).to(a.device).eval()


def run(a, dtype, ids, labels, starts):
    """Loss and LoRA gradients, in float32 on the CPU."""
    model = load(a, dtype)
    count = sum(int((labels[b + 1 : e] != -100).sum()) for b, e in zip(starts, starts[1:]))
    total = 0.0
    for b, e in zip(starts, starts[1:]):
        logits = model(input_ids=ids[b:e][None].to(a.device), use_cache=False).logits[0, :-1].float()
        loss = torch.nn.functional.cross_entropy(logits, labels[b + 1 : e].to(a.device), ignore_index=-100, reduction="sum") / count
        loss.backward()
        total += float(loss.detach())
    grads = {
        "grad." + n.replace(".default.", "."): p.grad.detach().float().cpu().contiguous()
        for n, p in model.named_parameters()
        if "lora_" in n
    }
    del model
    gc.collect()
    return total, grads


def main():
    a = arguments()
    torch.manual_seed(a.seed)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    os.makedirs(a.out, exist_ok=True)
    for name in os.listdir(a.model):
        if name.endswith((".json", ".safetensors")) and not os.path.exists(os.path.join(a.out, name)):
            os.symlink(os.path.abspath(os.path.join(a.model, name)), os.path.join(a.out, name))
    vocab = json.load(open(os.path.join(a.model, "config.json"))).get("vocab_size")
    if vocab is None:
        vocab = json.load(open(os.path.join(a.model, "config.json")))["text_config"]["vocab_size"]
    cuts = torch.randperm(a.tokens - 1)[: a.documents - 1].sort().values + 1
    starts = [0, *cuts.tolist(), a.tokens]
    ids = torch.randint(0, vocab, (a.tokens,))
    labels = torch.where(torch.rand(a.tokens) < 0.5, ids, torch.full_like(ids, -100))
    for b in starts[:-1]:
        labels[b] = -100  # nothing before it says what a document's first token is
    loss, grads = run(a, torch.float32, ids, labels, starts)
    low_loss, low = run(a, torch.bfloat16, ids, labels, starts)
    errors = {k: float((low[k].double() - g.double()).norm() / g.double().norm()) for k, g in grads.items()}
    errors["loss"] = abs(low_loss / loss - 1)
    tensors = {"input_ids": ids.int(), "labels": labels.int(), "document_starts": torch.tensor(starts, dtype=torch.int32)}
    safetensors.torch.save_file({**tensors, "loss": torch.tensor([loss]), **grads}, os.path.join(a.out, "golden.safetensors"))
    made = f"transformers {transformers.__version__}, PEFT {peft.__version__}, torch {torch.__version__}, bfloat16, {a.device}"
    with open(os.path.join(a.out, "transformers_bf16.json"), "w") as f:
        json.dump({"made_with": made, "errors": errors}, f, indent=1)
    print(f"{a.out}: loss {loss:.6f}, {low_loss:.6f} in bfloat16; worst gradient {max(v for k, v in errors.items()):.3g}")


main()
