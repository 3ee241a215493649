"""Batches of TimescaleDB's columnstore, written and read without the server: a location's month in one compressed row.

The encoder gives, byte for byte, what the server makes of the same rows, as tuples of a binary COPY; the decoder reads
such tuples back. A batch has delta-delta times and gorilla float4 values; their flags and widths are packed by
Simple-8b with run lengths. The format is that of TimescaleDB 2.29; `batch_load` asks the server before it relies on it.

numba compiles these functions: in Python, each value would take a thousand times as long. It is imported with this
module, so only where batches are wanted (`era5-pipeline[fast]`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from era5_pipeline.runtime.compiled import compiled, inlined

if TYPE_CHECKING:
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Words = npt.NDArray[np.uint64]

# Rows that the server puts into one batch at most; a month of hours has 744.
BATCH_ROWS = 1000
_NULL, _GORILLA, _DELTA_DELTA = 6, 3, 4

# Simple-8b: a block of 64 bits holds COUNT values of WIDTH bits, by its selector; or, by the last one, a run of equal
# values, with the value in the lower 36 bits and the length above.
_WIDTH = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 21, 32, 64], dtype=np.int64)
_COUNT = np.array([0, 64, 32, 21, 16, 12, 10, 9, 8, 6, 5, 4, 3, 2, 1], dtype=np.int64)
_RUN, _RUN_BITS, _SINGLE = 15, 36, 14
# Smallest selector by bit width; zero needs one bit.
_SELECTOR = np.array([int(np.argmax(max(1, bits) <= _WIDTH)) for bits in range(65)], dtype=np.int64)
# Widths and leading zeros change only if more bits than this would be wasted.
_WASTED_BITS = 12
_LEADING_BITS = 6

_ONE, _ZERO, _ALL = np.uint64(1), np.uint64(0), np.uint64(0xFFFFFFFFFFFFFFFF)


def _bits_intrinsic(name: str) -> Any:
    @intrinsic
    def count(_context: Any, value: Any) -> Any:
        """Count the leading or trailing zeros of a uint64; 64 for zero."""

        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return getattr(builder, name)(arguments[0], ir.Constant(ir.IntType(1), 0))

        return types.int64(value), generate

    return count


_leading_zeros = _bits_intrinsic("ctlz")
_trailing_zeros = _bits_intrinsic("cttz")


# --- Numbers, most significant byte first ---
#
# Those of 8 bytes in one instruction: byte by byte, numba would check each index.


def _address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.bitcast(builder.gep(array.data, [arguments[1]]), ir.IntType(64).as_pointer())


def _eight_bytes() -> tuple[Any, Any]:
    @intrinsic
    def put(_context: Any, out: Any, _at: Any, _word: Any) -> Any:
        """Write 64 bits at a position in the bytes; return the position after them."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            address = _address(context, builder, signature, arguments)
            builder.store(builder.bswap(arguments[2]), address).align = 1
            return builder.add(arguments[1], context.get_constant(types.int64, 8))

        return types.int64(out, types.int64, types.uint64), generate

    @intrinsic
    def get(_context: Any, data: Any, _at: Any) -> Any:
        """Read 64 bits at a position in the bytes."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = builder.load(_address(context, builder, signature, arguments))
            word.align = 1
            return builder.bswap(word)

        return types.uint64(data, types.int64), generate

    return put, get


_put8, _get8 = _eight_bytes()


@inlined
def _put2(out: Bytes, at: int, value: int) -> int:
    out[at] = (value >> 8) & 0xFF
    out[at + 1] = value & 0xFF
    return at + 2


@inlined
def _put4(out: Bytes, at: int, value: Any) -> int:
    out[at] = (value >> 24) & 0xFF
    out[at + 1] = (value >> 16) & 0xFF
    out[at + 2] = (value >> 8) & 0xFF
    out[at + 3] = value & 0xFF
    return at + 4


@inlined
def _put_blocks(out: Bytes, at: int, values: int, blocks: Words, selectors: Words, used: int) -> int:
    at = _put4(out, at, values)
    at = _put4(out, at, used)
    for number in range((used + 15) >> 4):
        at = _put8(out, at, selectors[number])
    for number in range(used):
        at = _put8(out, at, blocks[number])
    return at


@inlined
def _add_block(blocks: Words, selectors: Words, used: int, selector: int, block: Any) -> int:
    if used & 15 == 0:
        selectors[used >> 4] = _ZERO
    selectors[used >> 4] |= np.uint64(selector) << np.uint64(4 * (used & 15))
    blocks[used] = block
    return used + 1


@inlined
def _window(words: Words, at: Any) -> Any:
    """The 64 bits from bit `at` on."""
    word, offset = np.uint64(at) >> np.uint64(6), np.uint64(at) & np.uint64(63)
    # Two shifts, because one by 64 bits is not defined.
    return (words[word] >> offset) | ((words[word + _ONE] << _ONE) << (np.uint64(63) - offset))


@compiled
def _put_flags(words: Words, count: int, out: Bytes, at: int, blocks: Words, selectors: Words) -> int:
    """Pack `count` bits of `words`, which has one word more than they fill."""
    used = position = 0
    while position < count:
        left = count - position
        window = _window(words, position)
        flag = window & _ONE
        others = window ^ (_ALL if flag else _ZERO)
        if others == _ZERO and left >= 64:
            length = 64
            while length < left:
                equal = _trailing_zeros(_window(words, position + length) ^ (_ALL if flag else _ZERO))
                length += equal
                if equal < 64:
                    break
            length = min(length, left)
            used = _add_block(blocks, selectors, used, _RUN, flag | np.uint64(length) << np.uint64(_RUN_BITS))
            position += length
        else:
            taken = min(64, left)
            mask = _ALL if taken == 64 else (_ONE << np.uint64(taken)) - _ONE
            used = _add_block(blocks, selectors, used, 1, window & mask)
            position += taken
    return _put_blocks(out, at, count, blocks, selectors, used)


@compiled
def _put_numbers(numbers: Words, count: int, out: Bytes, at: int, blocks: Words, selectors: Words) -> int:
    """Pack the first `count` of the numbers."""
    used = position = 0
    while position < count:
        value = numbers[position]
        left = count - position
        selector = _SELECTOR[64 - _leading_zeros(value)]
        length = 1
        while length < left and numbers[position + length] == value:
            length += 1
        if _WIDTH[selector] * length >= 64:
            if value >> np.uint64(_RUN_BITS) == _ZERO:
                used = _add_block(blocks, selectors, used, _RUN, value | np.uint64(length) << np.uint64(_RUN_BITS))
            else:
                for _ in range(length):
                    used = _add_block(blocks, selectors, used, _SINGLE, value)
            position += length
            continue
        while length < _COUNT[selector] and length < left:
            needed = _SELECTOR[64 - _leading_zeros(numbers[position + length])]
            while selector < needed and length < _COUNT[selector]:
                selector += 1
            if length >= _COUNT[selector]:
                break
            length += 1
        taken = min(_COUNT[selector], left)
        block, width = _ZERO, np.uint64(_WIDTH[selector])
        for number in range(taken):
            block |= numbers[position + number] << (np.uint64(number) * width)
        used = _add_block(blocks, selectors, used, selector, block)
        position += taken
    return _put_blocks(out, at, count, blocks, selectors, used)


@inlined
def _put_bits(words: Words, bits: Any, out: Bytes, at: int) -> int:
    """Write an array of bits: its words, and how many bits of the last one are used."""
    count = (bits + 63) >> 6
    at = _put4(out, at, count)
    out[at] = 0 if bits == 0 else bits - 64 * (count - 1)
    at += 1
    for number in range(count):
        at = _put8(out, at, words[number])
    return at


@compiled
def _put_times(times: npt.NDArray[np.int64], out: Bytes, at: int, scratch: Words) -> int:
    """Write times as delta-delta."""
    numbers, blocks, selectors = scratch[0], scratch[1], scratch[2]
    previous = step = np.int64(0)
    for row in range(times.size):
        new_step = times[row] - previous
        change = new_step - step
        numbers[row] = np.uint64((change << np.int64(1)) ^ (change >> np.int64(63)))
        previous, step = times[row], new_step
    out[at], out[at + 1] = _DELTA_DELTA, 0
    at = _put8(out, at + 2, previous)
    at = _put8(out, at, step)
    return _put_numbers(numbers, times.size, out, at, blocks, selectors)


@compiled
def _put_values(
    values: npt.NDArray[np.uint32], valid: npt.NDArray[np.bool_], out: Bytes, at: int, scratch: Words
) -> int:
    """Write the bits of float4 values as gorilla; `valid` has none if all are."""
    blocks, selectors = scratch[1], scratch[2]
    changed, renewed, leading, widths, xors, nulls = (
        scratch[3],
        scratch[4],
        scratch[5],
        scratch[0],
        scratch[6],
        scratch[7],
    )
    rows, has_nulls = values.size, False
    if valid.size:
        nulls[: (rows >> 6) + 2] = _ZERO
        for row in range(rows):
            if not valid[row]:
                nulls[row >> 6] |= _ONE << np.uint64(row & 63)
                has_nulls = True
    present = count = windows = leading_bits = 0
    xor_bits = np.int64(0)
    previous, low, high = _ZERO, np.int64(0), np.int64(0)  # high: leading zeros of the window, low: trailing ones
    flags = new_windows = lead_word = xor_word = _ZERO
    for row in range(rows):
        if has_nulls and not valid[row]:
            continue
        value = np.uint64(values[row])
        xor = value ^ previous
        previous = value
        if xor == _ZERO and present > 0:
            present += 1
            if present & 63 == 0:
                changed[(present >> 6) - 1] = flags
                flags = _ZERO
            continue
        flags |= _ONE << np.uint64(present & 63)
        present += 1
        if present & 63 == 0:
            changed[(present >> 6) - 1] = flags
            flags = _ZERO
        if xor == _ZERO:
            first, last = np.int64(63), np.int64(1)
        else:
            first, last = _leading_zeros(xor), _trailing_zeros(xor)
        if count == 0 or first < high or last < low or (first - high) + (last - low) > _WASTED_BITS:
            high, low = first, last
            new_windows |= _ONE << np.uint64(count & 63)
            widths[windows] = np.uint64(64 - high - low)
            windows += 1
            offset = leading_bits & 63
            lead_word |= np.uint64(high) << np.uint64(offset)
            if offset + _LEADING_BITS >= 64:
                leading[leading_bits >> 6] = lead_word
                lead_word = _ZERO
                if offset + _LEADING_BITS > 64:
                    lead_word = np.uint64(high) >> np.uint64(64 - offset)
            leading_bits += _LEADING_BITS
        count += 1
        if count & 63 == 0:
            renewed[(count >> 6) - 1] = new_windows
            new_windows = _ZERO
        width = 64 - high - low
        if width:
            filled = xor_bits & 63
            bits = xor >> np.uint64(low)
            xor_word |= bits << np.uint64(filled)
            # Written whether it is full or not: where words end cannot be predicted.
            xors[xor_bits >> 6] = xor_word
            spill = (bits >> _ONE) >> np.uint64(63 - filled)
            xor_word = spill if filled + width >= 64 else xor_word
            xor_bits += width
    if present == 0:
        out[at] = _NULL
        return at + 1
    changed[present >> 6] = flags
    changed[(present >> 6) + 1] = _ZERO
    renewed[count >> 6] = new_windows
    renewed[(count >> 6) + 1] = _ZERO
    leading[leading_bits >> 6] = lead_word
    xors[xor_bits >> 6] = xor_word
    out[at], out[at + 1] = _GORILLA, has_nulls
    at = _put8(out, at + 2, previous)
    at = _put_flags(changed, present, out, at, blocks, selectors)
    at = _put_flags(renewed, count, out, at, blocks, selectors)
    at = _put_bits(leading, leading_bits, out, at)
    at = _put_numbers(widths, windows, out, at, blocks, selectors)
    at = _put_bits(xors, xor_bits, out, at)
    if has_nulls:
        at = _put_flags(nulls, rows, out, at, blocks, selectors)
    return at


# --- Tuples of a binary COPY ---
#
# In the order of BATCH_COLUMNS, then the values' columns in the order of their rows in `values`.

BATCH_COLUMNS = (
    "_ts_meta_count",
    "location_id",
    "latitude",
    "longitude",
    "_ts_meta_min_1",
    "_ts_meta_max_1",
    "_ts_meta_v2_first_time",
    "_ts_meta_v2_last_time",
    "time",
)
_SCRATCH = (8, BATCH_ROWS + 40)


@compiled
def encode(
    times: npt.NDArray[np.int64],
    location_ids: npt.NDArray[np.int32],
    latitudes: npt.NDArray[np.uint32],
    longitudes: npt.NDArray[np.uint32],
    values: npt.NDArray[np.uint32],
    valid: npt.NDArray[np.bool_],
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    out: Bytes,
) -> int:
    """Write the tuples of all batches; return their length in bytes.

    `times` are microseconds since 2000, ascending in each batch, and (rows,) like ids and the bits of coordinates.
    `values` (columns, rows) are bits of float4; `valid` has the same shape, or (columns, 0) if no value is NULL. Batch
    number b has the rows `starts[b]` to `ends[b]`: one location, 1 to BATCH_ROWS rows. `out` has room for
    `most_bytes`.
    """
    scratch = np.empty(_SCRATCH, dtype=np.uint64)
    columns, has_flags = values.shape[0], valid.shape[1] > 0
    at = times_at = times_end = 0
    first = last = 0  # the rows of the batch whose times were written at `times_at`
    for number in range(starts.size):
        start, end = starts[number], ends[number]
        at = _put2(out, at, 9 + columns)
        at = _put4(out, _put4(out, at, 4), end - start)
        at = _put4(out, _put4(out, at, 4), location_ids[start])
        at = _put4(out, _put4(out, at, 4), np.int64(latitudes[start]))
        at = _put4(out, _put4(out, at, 4), np.int64(longitudes[start]))
        for _ in range(2):  # least and greatest; first and last
            at = _put8(out, _put4(out, at, 8), times[start])
            at = _put8(out, _put4(out, at, 8), times[end - 1])
        length_at, at = at, at + 4
        if number > 0 and end - start == last - first and np.array_equal(times[start:end], times[first:last]):
            out[at : at + times_end - times_at] = out[times_at:times_end]
            times_at, times_end = at, at + times_end - times_at
        else:
            times_at, times_end = at, _put_times(times[start:end], out, at, scratch)
        first, last, at = start, end, times_end
        _put4(out, length_at, at - length_at - 4)
        for column in range(columns):
            length_at, at = at, at + 4
            flags = valid[column, start:end] if has_flags else valid[column, :0]
            at = _put_values(values[column, start:end], flags, out, at, scratch)
            _put4(out, length_at, at - length_at - 4)
    return at


def most_bytes(batches: int, rows: int, columns: int) -> int:
    """The room that `encode` needs, in bytes: of a value 32 bits and as many around it, of a time twice as many."""
    return batches * (256 + 128 * columns) + rows * (16 + 8 * columns)


# --- Reading ---
#
# Whatever the bytes are, nothing is read or written outside of the arrays: a length or a number that cannot be right
# ends the reading with DAMAGED.

DAMAGED = -1


@inlined
def _get4(data: Bytes, at: int) -> Any:
    return (
        np.int64(data[at]) << 24 | np.int64(data[at + 1]) << 16 | np.int64(data[at + 2]) << 8 | np.int64(data[at + 3])
    )


@inlined
def _head(data: Bytes, at: int, end: int) -> Any:
    """The number of values packed by Simple-8b, and of their blocks; both 0 if they cannot be right."""
    if at + 8 > end:
        return np.int64(0), np.int64(0)
    count, blocks = _get4(data, at), _get4(data, at + 4)
    first = at + 8 + 8 * ((blocks + 15) >> 4)
    if count < 1 or count > BATCH_ROWS or blocks < 1 or blocks > count or first + 8 * blocks > end:
        return np.int64(0), np.int64(0)
    # Unused bits are zero: the selectors after the last block's, and the bits after the last value.
    if blocks & 15 and _get8(data, first - 8) >> np.uint64(4 * (blocks & 15)) != _ZERO:
        return np.int64(0), np.int64(0)
    return count, blocks


@inlined
def _selector(data: Bytes, at: int, block: int) -> Any:
    return np.int64((_get8(data, at + 8 + 8 * (block >> 4)) >> np.uint64(4 * (block & 15))) & np.uint64(15))


@compiled
def _get_numbers(data: Bytes, at: int, end: int, numbers: Words) -> Any:
    """Unpack Simple-8b into `numbers`; return the position after it, and their count in `numbers[-1]`."""
    count, blocks = _head(data, at, end)
    if count == 0:
        return DAMAGED
    first = at + 8 + 8 * ((blocks + 15) >> 4)
    filled = np.int64(0)
    for block in range(blocks):
        selector, word = _selector(data, at, block), _get8(data, first + 8 * block)
        if selector == _RUN:
            length = np.int64(word >> np.uint64(_RUN_BITS))
            if length < 1 or length > count - filled:
                return DAMAGED
            numbers[filled : filled + length] = word & ((_ONE << np.uint64(_RUN_BITS)) - _ONE)
            filled += length
            continue
        if selector == 0:
            return DAMAGED
        width = np.uint64(_WIDTH[selector])
        mask = _ALL if selector == _SINGLE else (_ONE << width) - _ONE
        taken = min(_COUNT[selector], count - filled)
        for number in range(taken):
            numbers[filled + number] = (word >> (np.uint64(number) * width)) & mask
        if taken * _WIDTH[selector] < 64 and word >> (np.uint64(taken) * width) != _ZERO:
            return DAMAGED
        filled += taken
    if filled != count:
        return DAMAGED
    numbers[-1] = np.uint64(count)
    return first + 8 * blocks


@compiled
def _get_flags(data: Bytes, at: int, end: int, flags: Words) -> Any:
    """Unpack Simple-8b of zeros and ones into bits; return the position after it, and their count in `flags[-1]`.

    As the greatest value is 1, each block has 64 of them, or is a run.
    """
    count, blocks = _head(data, at, end)
    if count == 0:
        return DAMAGED
    first = at + 8 + 8 * ((blocks + 15) >> 4)
    flags[: (count >> 6) + 2] = _ZERO
    filled = np.int64(0)
    for block in range(blocks):
        selector, word = _selector(data, at, block), _get8(data, first + 8 * block)
        if selector == _RUN:
            length, word = np.int64(word >> np.uint64(_RUN_BITS)), word & ((_ONE << np.uint64(_RUN_BITS)) - _ONE)
            if length < 1 or length > count - filled or word > _ONE:
                return DAMAGED
            word = _ALL if word else _ZERO
        elif selector == 1:
            length = min(np.int64(64), count - filled)
            if length < 64 and word >> np.uint64(length) != _ZERO:
                return DAMAGED
        else:
            return DAMAGED
        after = filled + length
        while filled < after:
            taken = min(np.int64(64), after - filled)
            bits = word & (_ALL >> np.uint64(64 - taken))
            number, offset = filled >> 6, np.uint64(filled & 63)
            flags[number] |= bits << offset
            flags[number + 1] |= (bits >> _ONE) >> (np.uint64(63) - offset)
            filled += taken
    if filled != count:
        return DAMAGED
    flags[-1] = np.uint64(count)
    return first + 8 * blocks


@compiled
def _get_bits(data: Bytes, at: int, end: int, words: Words) -> Any:
    """Copy an array of bits into `words`; return the position after it, and the number of bits in `words[-1]`."""
    if at + 5 > end:
        return DAMAGED
    count, used = _get4(data, at), np.int64(data[at + 4])
    after = at + 5 + 8 * count
    if count > BATCH_ROWS or after > end or used > 64 or (used == 0) != (count == 0):
        return DAMAGED
    for number in range(count):
        words[number] = _get8(data, at + 5 + 8 * number)
    if count and used < 64 and words[count - 1] >> np.uint64(used) != _ZERO:
        return DAMAGED
    words[count] = _ZERO
    words[-1] = np.uint64(64 * count + used - 64 if count else 0)
    return after


@compiled
def _get_times(data: Bytes, at: int, end: int, rows: int, times: npt.NDArray[np.int64], scratch: Words) -> Any:
    """Read delta-delta times without NULLs."""
    if at + 18 > end or data[at] != _DELTA_DELTA or data[at + 1] != 0:
        return False
    numbers = scratch[0]
    after = _get_numbers(data, at + 18, end, numbers)
    if after != end or numbers[-1] != np.uint64(rows):
        return False
    time = step = np.int64(0)
    for row in range(rows):
        zigzag = numbers[row]
        step += np.int64(zigzag >> _ONE) ^ -np.int64(zigzag & _ONE)
        time += step
        times[row] = time
    return np.int64(_get8(data, at + 2)) == time and np.int64(_get8(data, at + 10)) == step


@compiled
def _get_values(
    data: Bytes,
    at: int,
    end: int,
    rows: int,
    values: npt.NDArray[np.uint32],
    valid: npt.NDArray[np.bool_],
    scratch: Words,
) -> Any:
    """Read the bits of a column's values, and which are not NULL; return how many are, or DAMAGED."""
    if end == at + 1 and data[at] == _NULL:
        valid[:rows] = False
        return 0
    if at + 10 > end or data[at] != _GORILLA or data[at + 1] > 1:
        return DAMAGED
    changed, renewed, leading, widths, xors, nulls = (
        scratch[0],
        scratch[1],
        scratch[2],
        scratch[3],
        scratch[4],
        scratch[5],
    )
    has_nulls, last = data[at + 1] == 1, _get8(data, at + 2)
    at = _get_flags(data, at + 10, end, changed)
    if at != DAMAGED:
        at = _get_flags(data, at, end, renewed)
    if at != DAMAGED:
        at = _get_bits(data, at, end, leading)
    if at != DAMAGED:
        at = _get_numbers(data, at, end, widths)
    if at != DAMAGED:
        at = _get_bits(data, at, end, xors)
    if at != DAMAGED and has_nulls:
        at = _get_flags(data, at, end, nulls)
    present = np.int64(changed[-1])
    if at != end or present > rows or (not has_nulls and present != rows):
        return DAMAGED
    if leading[-1] != np.uint64(_LEADING_BITS) * widths[-1] or changed[0] & renewed[0] & _ONE == _ZERO:
        return DAMAGED
    # Bytes that cannot be right may make the numbers below too large: at most BATCH_ROWS times 64 bits, for which there
    # is room, and which are compared at the end.
    count = window = used = width = low = mask = value = over = _ZERO
    for number in range((present + 63) >> 6):
        flags, ahead, row = changed[number], _window(renewed, count), number << 6
        for at in range(row, min(row + 64, int(present))):
            if flags & _ONE:
                if ahead & _ONE:
                    high, width = _window(leading, np.uint64(_LEADING_BITS) * window) & np.uint64(63), widths[window]
                    # The width first, whose sum may overflow.
                    if width > np.uint64(64) or high + width > np.uint64(64) or high + width == _ZERO:
                        return DAMAGED
                    low, window = np.uint64(64) - high - width, window + _ONE
                    mask = _ALL >> (np.uint64(64) - width) if width else _ZERO
                ahead >>= _ONE
                value ^= (_window(xors, used) & mask) << low
                used += width
                over |= value
                count += _ONE
            values[at] = np.uint32(value)
            flags >>= _ONE
    if count != renewed[-1] or window != widths[-1] or used != xors[-1] or value != last or over >> np.uint64(32):
        return DAMAGED
    if has_nulls and not _spread(values, valid, present, rows, nulls):
        return DAMAGED
    return present


@compiled
def _spread(
    values: npt.NDArray[np.uint32], valid: npt.NDArray[np.bool_], present: Any, rows: int, nulls: Words
) -> bool:
    """Move values to their rows, of which others are NULL; False if these are not as many as there should be."""
    if nulls[-1] != np.uint64(rows):
        return False
    for row in range(rows - 1, -1, -1):
        valid[row] = (nulls[row >> 6] >> np.uint64(row & 63)) & _ONE == _ZERO
        if valid[row]:
            present -= 1
            if present < 0:
                return False
            values[row] = values[present]
    return bool(present == 0)


# Why a tuple was refused.
UNREADABLE, WRONG_TIMES, WRONG_PLACE, TWICE, WRONG_VALUES = 1, 2, 3, 4, 5
# One bit pattern for all missing values, as in `flat.statistics`.
_MISSING = np.uint64(0x7FC00000)


@compiled
def decode(
    data: Bytes,
    size: int,
    start: int,
    hour_weights: Words,
    location_weights: Words,
    grid: npt.NDArray[np.uint32],
    seen: npt.NDArray[np.bool_],
    sums: Words,
    counts: npt.NDArray[np.int64],
    rows_seen: npt.NDArray[np.int64],
    problem: npt.NDArray[np.int64],
) -> int:
    """Read the whole tuples in the first `size` bytes, and add what they hold; return the bytes that were read.

    The month begins at `start`, in microseconds since 2000; an hour has a weight in `hour_weights`, and a location of
    the grid in `location_weights`, by its id, as in `flat.statistics`. `grid` (2, columns) has the bits of latitudes
    and longitudes. Added are, for each column, `sums` (digest) and `counts` (values); `rows_seen` (1,) rows; and `seen`
    says which locations had a batch. DAMAGED is returned at the first tuple that cannot be right; `problem` is then its
    location (or -1), the reason, and the column (or -1).
    """
    scratch = np.empty(_SCRATCH, dtype=np.uint64)
    times = np.empty(BATCH_ROWS, dtype=np.int64)
    weights = np.empty(BATCH_ROWS, dtype=np.uint64)  # of the rows' hours
    values = np.empty(BATCH_ROWS, dtype=np.uint32)
    valid = np.empty(BATCH_ROWS, dtype=np.bool_)
    columns = sums.size
    done = rows_before = times_at = times_end = 0
    existing = _ZERO  # the sum of `weights`
    while done + 2 <= size:
        # The tuple's end, first: the data may end in the middle.
        at, fields = done + 2, np.int64(data[done]) << 8 | np.int64(data[done + 1])
        if fields == 0xFFFF:  # the end of the COPY
            break
        problem[0], problem[1], problem[2] = -1, UNREADABLE, -1
        if fields != 9 + columns:
            return DAMAGED
        is_whole = True
        for _ in range(fields):
            if at + 4 > size:
                is_whole = False
                break
            length = _get4(data, at)
            at += 4 + (0 if length == 0xFFFFFFFF else length)
        if not is_whole or at > size:
            break
        after, at = at, done + 2
        for _ in range(4):
            if _get4(data, at) != 4:
                return DAMAGED
            at += 8
        for _ in range(4):
            if _get4(data, at) != 8:
                return DAMAGED
            at += 12
        at = done + 2
        rows, location = _get4(data, at + 4), _get4(data, at + 12)
        if rows < 1 or rows > BATCH_ROWS:
            return DAMAGED
        problem[1] = WRONG_PLACE
        if location < 1 or location >= seen.size:
            return DAMAGED
        problem[0] = location
        if _get4(data, at + 20) != np.int64(grid[0, (location - 1) // grid.shape[1]]) or _get4(
            data, at + 28
        ) != np.int64(grid[1, (location - 1) % grid.shape[1]]):
            return DAMAGED
        if seen[location]:
            problem[1] = TWICE
            return DAMAGED
        seen[location] = True
        problem[1] = WRONG_TIMES
        at += 80
        length, at = _get4(data, at), at + 4
        if length == 0xFFFFFFFF:
            return DAMAGED
        if rows != rows_before or not np.array_equal(data[at : at + length], data[times_at:times_end]):
            if not _get_times(data, at, at + length, rows, times, scratch):
                return DAMAGED
            existing = _ZERO
            for row in range(rows):
                hour = (times[row] - start) // 3_600_000_000
                if (
                    hour < 0
                    or hour >= hour_weights.size
                    or start + hour * 3_600_000_000 != times[row]
                    or (row > 0 and times[row] <= times[row - 1])
                ):
                    return DAMAGED
                weights[row] = hour_weights[hour]
                existing += weights[row]
        rows_before, times_at, times_end = rows, at, at + length
        at = times_end
        first, last = np.uint64(times[0]), np.uint64(times[rows - 1])
        ends = done + 2 + 36
        if (
            _get8(data, ends) != first
            or _get8(data, ends + 12) != last
            or _get8(data, ends + 24) != first
            or _get8(data, ends + 36) != last
        ):
            return DAMAGED
        weight = location_weights[location]
        problem[1] = WRONG_VALUES
        for column in range(columns):
            problem[2] = column
            length = _get4(data, at)
            at += 4
            found = np.int64(0)
            if length == 0xFFFFFFFF:
                valid[:rows] = False
            else:
                found = _get_values(data, at, at + length, rows, values, valid, scratch)
                at += length
            if found == DAMAGED:
                return DAMAGED
            total = existing
            for row in range(rows):
                bits = np.uint64(values[row]) if found == rows or valid[row] else _MISSING
                total += (bits ^ (bits >> np.uint64(16))) * weights[row]
            sums[column] += total * weight
            counts[column] += found
        rows_seen[0] += rows
        done = after
    return done
