#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Functions for tests of unwind tables, in addition to lib/callchain_deferred.sh.

# shellcheck disable=SC2154 # The test has program.

# damage_program COPY: copies ${program}, and gives the section .eh_frame of the copy an
# absurd size
damage_program() {
  "${program}" - "${program}" "$1" << 'PYTHON' || give_up "cannot damage a program"
import shutil, struct, sys
shutil.copy(sys.argv[1], sys.argv[2])
with open(sys.argv[2], "r+b") as file:
    data = file.read()
    shoff, = struct.unpack_from("<Q", data, 40)
    size, number, names = struct.unpack_from("<HHH", data, 58)
    sections = [struct.unpack_from("<IIQQQQ", data, shoff + i * size) for i in range(number)]
    for i, section in enumerate(sections):
        start = sections[names][4] + section[0]
        if data[start:data.index(b"\0", start)] == b".eh_frame":
            file.seek(shoff + i * size + 32)
            file.write(struct.pack("<Q", 1 << 40))
PYTHON
}
