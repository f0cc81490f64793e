"""The formulas of docs/maths.md against transformers and PEFT: runs the hand-written model of verify_maths.py
(float64) on golden cases of the hybrid family, and prints the error of the loss and the largest error of a LoRA
gradient, relative to its norm.

    /usr/bin/python3 docs/verify/check_against_golden.py [FOLDER ...]     default: tests/data/models/qwen3_5-*

A FOLDER holds config.json, model.safetensors, adapter/ and golden.safetensors (input_ids, labels, loss, grad.NAME).
Needs numpy and torch.  Ends with 1 when a case is beyond the tolerance, or when there is no case."""
import glob
import json
import os
import struct
import sys

import numpy as np

sys.dont_write_bytecode = True  # no __pycache__ in the tree
import verify_maths as vm


def read_safetensors(path):
    """All tensors of a safetensors file as numpy arrays (F32, I32)."""
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        head, data = json.loads(f.read(size)), f.read()
    kinds = {"F32": np.float32, "I32": np.int32}
    return {n: np.frombuffer(data[h["data_offsets"][0]:h["data_offsets"][1]], kinds[h["dtype"]]).reshape(h["shape"])
            for n, h in head.items() if n != "__metadata__"}


def spec(cfg, adapter):
    c = vm.Cfg()
    rope = cfg["rope_parameters"]
    c.hidden, c.inter, c.vocab, c.eps = cfg["hidden_size"], cfg["intermediate_size"], cfg["vocab_size"], cfg["rms_norm_eps"]
    c.heads, c.kv, c.hd = cfg["num_attention_heads"], cfg["num_key_value_heads"], cfg["head_dim"]
    c.rot, c.theta = int(c.hd * rope["partial_rotary_factor"]), rope["rope_theta"]
    c.hk, c.hv, c.dk, c.dv = (cfg["linear_" + k] for k in ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim"))
    c.kw = cfg["linear_conv_kernel_dim"]
    c.layers = ["full" if t == "full_attention" else "lin" for t in cfg["layer_types"]]
    c.rank = adapter["r"]
    c.scale = adapter["lora_alpha"] / (c.rank ** .5 if adapter.get("use_rslora") else c.rank)
    return c


MIXER = {"full": {"q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.o_proj"},
         "lin": {"qkv": "linear_attn.in_proj_qkv", "z": "linear_attn.in_proj_z", "b": "linear_attn.in_proj_b", "a": "linear_attn.in_proj_a", "out": "linear_attn.out_proj"}}
MLP = {"gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj"}


def weights(c, w, lo):
    w = {k.replace("model.language_model.", "model."): v.astype(np.float64) for k, v in w.items()}
    p = {"embed": w["model.embed_tokens.weight"], "norm": w["model.norm.weight"]}
    p["lm_head"] = w.get("lm_head.weight", p["embed"])
    lora, names = {}, {}
    for i, kind in enumerate(c.layers):
        m, n = f"model.layers.{i}.", f"{i}."
        p[n + "ln1"], p[n + "ln2"] = w[m + "input_layernorm.weight"], w[m + "post_attention_layernorm.weight"]
        for short, long in {**MIXER[kind], **MLP}.items():
            p[n + short] = w[m + long + ".weight"]
            key = f"base_model.model.{m}{long}.lora_"
            if key + "A.weight" in lo:
                for x in "AB":
                    lora[f"{n}{short}.{x}"] = lo[f"{key}{x}.weight"].astype(np.float64)
                    names[f"{n}{short}.{x}"] = f"grad.{key}{x}.weight"
        if kind == "full":
            p[n + "qn"], p[n + "kn"] = w[m + "self_attn.q_norm.weight"], w[m + "self_attn.k_norm.weight"]
        else:
            a = m + "linear_attn."
            p[n + "conv"], p[n + "gn"] = w[a + "conv1d.weight"][:, 0], w[a + "norm.weight"]
            p[n + "A_log"], p[n + "dt"] = w[a + "A_log"], w[a + "dt_bias"]
    return p, lora, names


# The cases were made in float32: 2^-24 a rounding, over sums of some 2^14 of them.
TOLERANCE = 2.0 ** -10


def load(path):
    with open(path) as f:
        return json.load(f)


def run(folder):
    """Whether one case agrees."""
    c = spec(load(folder + "/config.json"), load(folder + "/adapter/adapter_config.json"))
    g = read_safetensors(folder + "/golden.safetensors")
    p, lora, names = weights(c, read_safetensors(folder + "/model.safetensors"),
                             read_safetensors(folder + "/adapter/adapter_model.safetensors"))
    ids, labels = g["input_ids"], np.append(g["labels"][1:], -100)
    model = vm.TinyManual(c, p, lora, [0, len(ids)], np.arange(len(ids)))
    loss, grads = model.run(ids, labels, int((labels >= 0).sum()))
    off = abs(loss / g["loss"][0] - 1)
    worst, name = max((np.linalg.norm(grads[k] - g[n]) / np.linalg.norm(g[n]), n) for k, n in names.items())
    print(f"{os.path.basename(folder)}: loss {loss:.7f}, off by {off:.1e}; {len(names)} gradients, worst {worst:.1e} ({name})")
    return off <= TOLERANCE and worst <= TOLERANCE


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    folders = [f.rstrip("/") for f in sys.argv[1:]] or sorted(
        os.path.dirname(f) for f in glob.glob(here + "/../../tests/data/models/qwen3_5-*/golden.safetensors"))
    if not folders:
        sys.exit("no golden.safetensors in tests/data/models/qwen3_5-*; name the folders that hold some")
    if not all([run(f) for f in folders]):
        sys.exit(f"beyond {TOLERANCE:.1e}")


if __name__ == "__main__":
    main()
