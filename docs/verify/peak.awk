# peak.awk - what stands on the stack at its highest point, from `plimsoll plan MODEL --layout`.
#   plimsoll plan MODEL --seq 64k --card h200 --layout | awk -f docs/verify/peak.awk
#   ... | awk -v memory=host -f docs/verify/peak.awk       the pinned host memory
# Bytes, how many tensors, component, tensor; equal names are added up.  The last line is their sum, which must
# be the highest end of any tensor, or the program ends with 1.
BEGIN { FS = OFS = "\t"; if (memory == "") memory = "device" }
$1 == memory {
    line[++lines] = $0
    end = $2 + int(($3 + 255) / 256) * 256
    if (end > high) {
        high = end
        highest = lines
    }
}
END {
    for (n = 1; n <= highest; n++) {
        split(line[n], f, FS)
        # A push at an offset means that everything from there on has been popped.
        while (depth && offset[depth] >= f[2] + 0) depth--
        depth++
        offset[depth] = f[2] + 0
        size[depth] = int((f[3] + 255) / 256) * 256
        label[depth] = f[4] OFS f[5]
    }
    for (i = 1; i <= depth; i++) {
        if (!(label[i] in bytes)) order[++kinds] = label[i]
        bytes[label[i]] += size[i]
        count[label[i]]++
        sum += size[i]
    }
    for (k = 1; k <= kinds; k++) printf "%.0f\t%d\t%s\n", bytes[order[k]], count[order[k]], order[k]
    printf "%.0f\t%d\tall\tpeak\n", sum, depth
    exit sum != high
}
