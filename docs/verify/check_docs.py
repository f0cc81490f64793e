#!/usr/bin/env python3
"""Whether the documents still say what the program says: runs every command that README.md shows with its output
and compares, and looks up every relative link of every .md file.  Standard library alone; needs a built plimsoll.

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


def main():
    found = list(broken_links()) + list(stale_output())
    for text in found:
        print(text)
    print("the documents hold" if not found else f"{len(found)} places differ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
