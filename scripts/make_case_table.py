#!/usr/bin/env python3
"""Writes src/text/jinja_case_table.h: upper, lower and title case of every character beyond ASCII, from the
Unicode data of the Python that runs this."""
import unicodedata


def codes():
    return [c for c in range(0x80, 0x110000) if not 0xD800 <= c < 0xE000]


def ranges(of):
    out = []
    for c in codes():
        to = of(chr(c))
        if len(to) != 1 or ord(to) == c:
            continue
        delta = ord(to) - c
        if out:
            first, last, step, d = out[-1]
            if d == delta and ((step == 0 and c - last in (1, 2)) or (step and c - last == step)):
                out[-1] = (first, c, c - last, delta)
                continue
        out.append((c, c, 0, delta))
    return [(first, last, step or 1, delta) for first, last, step, delta in out]


def lines(items, width=112):
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > width:
            yield line
            line = "   "
        line += " " + item + ","
    yield line


def table(name, of):
    print(f"static const plim_case_range {name}[] = {{")
    for line in lines(f"{{0x{a:x}, 0x{b:x}, {s}, {d}}}" for a, b, s, d in ranges(of)):
        print(line)
    print("};")


def main():
    print("/* jinja_case_table.h - letter case beyond ASCII, made by scripts/make_case_table.py from Unicode")
    print(f" * {unicodedata.unidata_version}. */")
    print("/* clang-format off */")
    print("#ifndef PLIM_TEXT_JINJA_CASE_TABLE_H\n#define PLIM_TEXT_JINJA_CASE_TABLE_H\n\n#include <stdint.h>\n")
    print("/* Every step-th character from first to last becomes itself plus delta. */")
    print("typedef struct plim_case_range {\n    uint32_t first, last;\n    int32_t step, delta;\n} plim_case_range;\n")
    print("/* A character that becomes up to three. */")
    print("typedef struct plim_case_special {\n    uint32_t code, to[3];\n} plim_case_special;\n")
    for name, of in (("upper", str.upper), ("lower", str.lower), ("title", str.title)):
        table(f"{name}_ranges", of)
        print(f"\nstatic const plim_case_special {name}_specials[] = {{")
        many = [(c, of(chr(c))) for c in codes() if len(of(chr(c))) > 1]
        for line in lines("{0x%x, {%s}}" % (c, ", ".join("0x%x" % ord(x) for x in to)) for c, to in many):
            print(line)
        print("};\n")
    print("#endif\n/* clang-format on */")


main()
