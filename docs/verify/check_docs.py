#!/usr/bin/env python3
"""Whether the documents still say what the program says: runs every command that README.md shows with its output
and compares (fences named console are left out: they take long, or tell times), looks up every relative link of every
.md file, and holds the tables of docs/memory-model.md against --layout.  Standard library alone; needs a built
plimsoll.

    docs/verify/check_docs.py [PROGRAM]     default: ./build/plimsoll

Ends with 1 when something differs, and names it."""
import difflib
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "./build/plimsoll"


def tracked(pattern):
    out = subprocess.run(["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=True)
    return out.stdout.split()


def anchors(text):
    """The names GitHub gives to headings."""
    heads = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads}


def broken_links():
    for name in tracked("*.md"):
        with open(os.path.join(ROOT, name), encoding="utf-8") as f:
            text = f.read()
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = os.path.normpath(os.path.join(ROOT, os.path.dirname(name), path)) if path else os.path.join(ROOT, name)
            if not os.path.exists(target):
                yield f"{name}: {link}: there is no such file"
            elif anchor:
                with open(target, encoding="utf-8") as f:
                    if anchor not in anchors(f.read()):
                        yield f"{name}: {link}: there is no such heading"


def stale_output():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
        blocks = re.findall(r"^```\n\$ (.*)\n((?:.*\n)*?)```$", f.read(), re.M)
    if not blocks:
        yield "README.md: shows no command with its output"
    for command, shown in blocks:
        line = "exec 2>&1; " + command.replace("./build/plimsoll", PROGRAM)
        got = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True).stdout
        if got.rstrip("\n") != shown.rstrip("\n"):
            diff = difflib.unified_diff(shown.splitlines(), got.splitlines(), "README.md", "now", lineterm="", n=0)
            yield "README.md: $ " + command + "\n" + "\n".join(diff)


def layout(length):
    """Sizes of every tensor, by name, and what peak.awk says of the layout."""
    plan = [PROGRAM, "plan", "share/models/qwen3.8-27b/config.json", "--seq", length, "--card", "h200", "--layout"]
    listed = subprocess.run(plan, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    peak = subprocess.run(["awk", "-f", "docs/verify/peak.awk"], cwd=ROOT, input=listed, capture_output=True, text=True,
                          check=True).stdout
    sizes = {}
    for line in listed.splitlines()[1:]:
        cells = line.split("\t")
        sizes.setdefault(cells[4], set()).add(int(cells[2]))
    return sizes, [line.split("\t") for line in peak.splitlines()]


def stale_tables():
    name = "docs/memory-model.md"
    lengths = [layout(n) for n in ("16k", "64k", "128k")]
    with open(os.path.join(ROOT, name), encoding="utf-8") as f:
        rows = [[c.strip() for c in line.strip("|\n ").split("|")] for line in f if line.startswith("|")]
    worked, checked = [], 0
    for cells in rows:
        if len(cells) == 4 and re.fullmatch(r"[\d,]+", cells[0]) and re.fullmatch(r"\d+", cells[1]):
            worked.append([cells[0].replace(",", "")] + cells[1:])
        tensor = re.fullmatch(r"`(\w+\.\w+|dx|ring)`", cells[0])
        bytes_ = [int(c.replace(",", "")) for c in cells[3:] if re.fullmatch(r"[\d,]+", c)]
        if not tensor or len(bytes_) not in (1, 3):
            continue
        for (sizes, _), want in zip(lengths, bytes_ * 3 if len(bytes_) == 1 else bytes_):
            checked += 1
            if want not in sizes.get(tensor.group(1), set()):
                yield f"{name}: {tensor.group(1)}: {want} is none of {sorted(sizes.get(tensor.group(1), set()))}"
    if worked != lengths[1][1]:
        diff = difflib.unified_diff(["\t".join(r) for r in worked], ["\t".join(r) for r in lengths[1][1]], name, "now",
                                    lineterm="", n=0)
        yield f"{name}: the worked example\n" + "\n".join(diff)
    if not checked:
        yield f"{name}: holds no table of tensors"


def main():
    found = list(broken_links()) + list(stale_output()) + list(stale_tables())
    for text in found:
        print(text)
    print("the documents hold" if not found else f"{len(found)} places differ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
