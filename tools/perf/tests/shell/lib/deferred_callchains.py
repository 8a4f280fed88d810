#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Writes a perf.data file with deferred or, with --merged, merged user callchains.

One task after the other is sampled in the kernel. Its user callchain is recorded after
--waiting samples of other tasks. A task has only one pending callchain, so there are
--waiting + 1 tasks. All addresses are made up.

With --mem, samples are of memory accesses in user space. Their program is written, too,
so that there are symbols and code to disassemble. It is mapped again after half of the
samples. Samples that wait for their record then belong to the old mapping.
"""
import argparse
import struct
import sys

PERF_RECORD_MMAP = 1
PERF_RECORD_COMM = 3
PERF_RECORD_SAMPLE = 9
PERF_RECORD_MMAP2 = 10
PERF_RECORD_CALLCHAIN_DEFERRED = 22
PERF_RECORD_HEADER_ATTR = 64
PERF_RECORD_FINISHED_ROUND = 68

PERF_RECORD_MISC_KERNEL = 1
PERF_RECORD_MISC_USER = 2
# PERF_RECORD_MISC_CALLCHAIN_CUT and PERF_RECORD_MISC_CALLCHAIN_BROKEN
MISC_CUT = 1 << 13
MISC_BROKEN = 1 << 14

PERF_CONTEXT_KERNEL = 2**64 - 128
PERF_CONTEXT_USER = 2**64 - 512
PERF_CONTEXT_USER_DEFERRED = 2**64 - 640

PERF_SAMPLE_IP = 1 << 0
PERF_SAMPLE_TID = 1 << 1
PERF_SAMPLE_TIME = 1 << 2
PERF_SAMPLE_ADDR = 1 << 3
PERF_SAMPLE_CALLCHAIN = 1 << 5
PERF_SAMPLE_CPU = 1 << 7
PERF_SAMPLE_PERIOD = 1 << 8
PERF_SAMPLE_WEIGHT = 1 << 14
PERF_SAMPLE_DATA_SRC = 1 << 15
SAMPLE_TYPE = (PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
               PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_PERIOD)
SAMPLE_TYPE_MEM = (SAMPLE_TYPE | PERF_SAMPLE_ADDR | PERF_SAMPLE_CPU |
                   PERF_SAMPLE_WEIGHT | PERF_SAMPLE_DATA_SRC)

# PERF_MEM_S() of what, level, and snooping
DATA_SRC_LOAD_HITM = 0x02 | (0x02 | 0x40) << 5 | 0x10 << 19
DATA_SRC_LOAD_L1 = 0x02 | (0x02 | 0x08) << 5 | 0x02 << 19
DATA_SRC_STORE_L1 = 0x04 | (0x02 | 0x08) << 5 | 0x02 << 19

ATTR_SIZE = 136
ATTR_SAMPLE_ID_ALL = 1 << 18
ATTR_DEFER_CALLCHAIN = 1 << 38
ATTR_DEFER_OUTPUT = 1 << 39
ATTR_OVERWRITE = 1 << 63

HEADER_SIZE = 104
PID = 1000
COOKIE = 0x5000000000
KERNEL_IP = 0xffffffff81000000
KERNEL_SIZE = 0x1000000
TEXT = 0x400000
TEXT_SIZE = 0x100000
# File offset of the text in the program
TEXT_OFFSET = 0x1000
FUNCTION_SIZE = 16
# Distance between two sets of functions
HALF_OFFSET = 0x1000
DATA = 0x7f0000000000
CACHE_LINE_SIZE = 64
START = 10**9
NSEC_PER_SAMPLE = 1000
SAMPLES_PER_ROUND = 1000


def record(rtype, misc, body):
    return struct.pack('<IHH', rtype, misc, 8 + len(body)) + body


def sample_id(args, tid, time):
    body = struct.pack('<IIQ', PID, tid, time)
    return body + struct.pack('<II', 0, 0) if args.mem else body


def comm(args, tid, name, time):
    name = name.encode().ljust(16, b'\0')
    return record(PERF_RECORD_COMM, 0, struct.pack('<II', PID, tid) + name +
                  sample_id(args, tid, time))


def mmap(args, time, offset=0):
    name = (args.mem or '/deferred/program').encode()
    name = name.ljust((len(name) // 8 + 1) * 8, b'\0')
    body = struct.pack('<IIQQQIIQQII', PID, PID, TEXT, TEXT_SIZE, offset,
                       8, 1, 12345, 0, 5, 2) + name
    return record(PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER, body + sample_id(args, PID, time))


def kernel_mmap(args, time):
    body = struct.pack('<iIQQQ', -1, 0, KERNEL_IP, KERNEL_SIZE, KERNEL_IP)
    body += b'[kernel.kallsyms]_text'.ljust(24, b'\0')
    return record(PERF_RECORD_MMAP, PERF_RECORD_MISC_KERNEL, body + sample_id(args, 0, time))


def user_chain(number, depth):
    """Functions of 16 bytes, in 256 different chains"""
    return [TEXT + FUNCTION_SIZE * i + HALF_OFFSET * ((number >> (i % 8)) % 2) + 4
            for i in range(1, depth + 1)]


def sample(tid, time, ips):
    body = struct.pack('<QIIQQQ', KERNEL_IP, PID, tid, time, 1, len(ips))
    return record(PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL,
                  body + struct.pack('<%dQ' % len(ips), *ips))


def mem_sample(number, tid, time, ip, ips):
    """A sample of one of 8 cache lines. Each line has all kinds of accesses."""
    data_src = (DATA_SRC_LOAD_HITM, DATA_SRC_LOAD_L1, DATA_SRC_STORE_L1)[number % 3]
    addr = DATA + number % 8 * CACHE_LINE_SIZE + number % 4 * 8
    body = struct.pack('<QIIQQIIQQ', ip, PID, tid, time, addr, 0, 0, 1, len(ips))
    body += struct.pack('<%dQ' % len(ips), *ips)
    return record(PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER,
                  body + struct.pack('<QQ', 10 + number % 5, data_src))


def deferred(args, tid, time, cookie, ips):
    body = struct.pack('<QQ%dQ' % len(ips), cookie, len(ips), *ips)
    misc = (0, MISC_CUT, MISC_BROKEN, MISC_CUT | MISC_BROKEN)[cookie % 4] if args.incomplete else 0
    return record(PERF_RECORD_CALLCHAIN_DEFERRED, PERF_RECORD_MISC_USER | misc,
                  body + sample_id(args, tid, time))


def events(args):
    time = START
    if args.kernel:
        yield kernel_mmap(args, time)
    yield comm(args, PID, 'deferred', time)
    yield mmap(args, time, TEXT_OFFSET if args.mem else 0)
    kernel = [] if args.mem else [PERF_CONTEXT_KERNEL, KERNEL_IP, KERNEL_IP + 0x100]
    # A number always has the same chain.
    chains = [user_chain(i, args.depth) for i in range(256)]

    def late(i, time):
        if args.lose and i % args.lose == 0:
            return b''
        return deferred(args, PID + i % args.tasks, time, COOKIE + i, chains[i % 256])

    for i in range(args.samples):
        time += NSEC_PER_SAMPLE
        if not args.merged:
            ips = kernel + [PERF_CONTEXT_USER_DEFERRED, COOKIE + i]
        elif args.lose and i % args.lose == 0:
            ips = kernel
        else:
            ips = kernel + [PERF_CONTEXT_USER] + chains[i % 256]
        if args.mem:
            if i == args.samples // 2:
                yield mmap(args, time, TEXT_OFFSET + HALF_OFFSET)
            yield mem_sample(i, PID + i % args.tasks, time, chains[i % 256][0], ips)
        else:
            yield sample(PID + i % args.tasks, time, ips)
        if not args.merged and i >= args.waiting:
            yield late(i - args.waiting, time + 1)
        if i % SAMPLES_PER_ROUND == 0:
            yield record(PERF_RECORD_FINISHED_ROUND, 0, b'')
    if not args.merged:
        for i in range(max(0, args.samples - args.waiting), args.samples):
            time += NSEC_PER_SAMPLE
            yield late(i, time)
            if i % SAMPLES_PER_ROUND == 0:
                yield record(PERF_RECORD_FINISHED_ROUND, 0, b'')


def string(text):
    """As perf writes strings in its header"""
    size = (len(text) // 64 + 1) * 64
    return struct.pack('<I', size) + text.encode().ljust(size, b'\0')


# Header features that tools expect, by their number
FEATURES = {
    3: string('host'),
    4: string('6.12.0'),
    5: string('6.12'),
    6: string('x86_64'),
    7: struct.pack('<II', 1, 1),
    8: string('processor'),
    9: string('Vendor,0,0,0'),
    10: struct.pack('<Q', 1 << 20),
    11: struct.pack('<I', 2) + string('perf') + string('record'),
    14: struct.pack('<IIQQ', 1, 0, 1 << 20, 1 << 19) + string('0'),
    # Of a later version
    63: string('unknown'),
}


def features(offset):
    """Returns the table of feature sections, with their contents, and the feature bits"""
    offset += 16 * len(FEATURES)
    sections = b''
    bits = 0
    for feature, body in sorted(FEATURES.items()):
        sections += struct.pack('<QQ', offset, len(body))
        offset += len(body)
        bits |= 1 << feature
    return sections + b''.join(body for _, body in sorted(FEATURES.items())), bits


def attr(args):
    flags = ATTR_SAMPLE_ID_ALL
    if not args.merged:
        flags |= ATTR_DEFER_CALLCHAIN | ATTR_DEFER_OUTPUT
    if args.overwrite:
        flags |= ATTR_OVERWRITE
    # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, or PERF_TYPE_RAW
    etype, config, sample_type = (4, 0x1cd, SAMPLE_TYPE_MEM) if args.mem else (1, 0, SAMPLE_TYPE)
    body = struct.pack('<IIQQQQQ', etype, args.attr_size, config, 1, sample_type, 0, flags)
    return body.ljust(ATTR_SIZE, b'\0').ljust(args.attr_size, b'\1' if args.attr_set else b'\0')


def program(depth):
    """An ELF file for x86-64 with the functions of user_chain(), and more functions
    for the second mapping. All functions consist of nops."""
    ehdr_size, phdr_size, shdr_size = 64, 56, 64
    text = b'\x90' * (3 * HALF_OFFSET)
    strtab = b'\0.text\0.symtab\0.strtab\0'
    symtab = b'\0' * 24
    for half, letter in enumerate('fgh'):
        for i in range(1, depth + 1):
            # STB_GLOBAL, STT_FUNC, in the first section
            symtab += struct.pack('<IBBHQQ', len(strtab), 0x12, 0, 1,
                                  TEXT + half * HALF_OFFSET + i * FUNCTION_SIZE, FUNCTION_SIZE)
            strtab += b'%c%d\0' % (ord(letter), i)
    offset = TEXT_OFFSET + len(text)

    def section(name, stype, flags, addr, offset, size, link=0, info=0, entsize=0):
        return struct.pack('<IIQQQQIIQQ', strtab.find(name), stype, flags,
                           addr, offset, size, link, info, 8 if stype else 0, entsize)

    sections = section(b'\0', 0, 0, 0, 0, 0)
    sections += section(b'.text', 1, 6, TEXT, TEXT_OFFSET, len(text))
    sections += section(b'.symtab', 2, 0, 0, offset, len(symtab), 3, 1, 24)
    offset += len(symtab)
    sections += section(b'.strtab', 3, 0, 0, offset, len(strtab))
    offset += len(strtab)

    # ET_EXEC, EM_X86_64; PT_LOAD, to be read and executed
    ehdr = struct.pack('<4s5B7xHHIQQQIHHHHHH', b'\x7fELF', 2, 1, 1, 0, 0, 2, 62, 1, TEXT,
                       ehdr_size, offset, 0, ehdr_size, phdr_size, 1, shdr_size, 4, 3)
    phdr = struct.pack('<IIQQQQQQ', 1, 5, TEXT_OFFSET, TEXT, TEXT, len(text), len(text), 0x1000)
    return (ehdr + phdr).ljust(TEXT_OFFSET, b'\0') + text + symtab + strtab + sections


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--samples', type=int, default=1000)
    parser.add_argument('--waiting', type=int, default=10)
    parser.add_argument('--depth', type=int, default=8)
    parser.add_argument('--lose', type=int, default=0, help='lose one of this many records')
    parser.add_argument('--merged', action='store_true')
    parser.add_argument('--overwrite', action='store_true', help='set attr.overwrite')
    parser.add_argument('--mem', metavar='PROGRAM', help='samples of memory accesses')
    parser.add_argument('--incomplete', action='store_true',
                        help='records whole, cut, broken, and short of memory, in turns')
    parser.add_argument('--kernel', action='store_true', help='with a map of the kernel')
    parser.add_argument('--attr-size', type=int, default=ATTR_SIZE, help='as of later versions')
    parser.add_argument('--attr-set', action='store_true', help='what is later in it is not zero')
    parser.add_argument('--pipe', action='store_true', help='in the format of a pipe')
    parser.add_argument('output')
    args = parser.parse_args()
    args.tasks = args.waiting + 1

    if args.mem:
        with open(args.mem, 'wb') as out:
            out.write(program(args.depth))

    with open(args.output, 'wb') as out:
        if args.pipe:
            out.write(struct.pack('<8sQ', b'PERFILE2', 16))
            out.write(record(PERF_RECORD_HEADER_ATTR, 0, attr(args)))
        else:
            out.write(b'\0' * HEADER_SIZE)
            out.write(attr(args) + struct.pack('<QQ', 0, 0))
        start = out.tell()
        block = []
        for event in events(args):
            block.append(event)
            if len(block) == 10000:
                out.write(b''.join(block))
                block = []
        out.write(b''.join(block))
        end = out.tell()
        if not args.pipe:
            sections, bits = features(end)
            out.write(sections)
            out.seek(0)
            out.write(struct.pack('<8sQQQQQQQQQ', b'PERFILE2', HEADER_SIZE, args.attr_size + 16,
                                  HEADER_SIZE, args.attr_size + 16, start, end - start, 0, 0, bits))
    return 0


if __name__ == '__main__':
    sys.exit(main())
