import { randomBytes } from 'node:crypto'

const BYTES = 16
const CHARS = 25

/** 16 bytes in digits and small letters: fewer tokens than hexadecimal, and no letter that a model may take for its capital. */
export const asHandle = (bytes: Buffer): string =>
  BigInt(`0x${bytes.subarray(0, BYTES).toString('hex')}`)
    .toString(36)
    .padStart(CHARS, '0')

/** A name for something that only its owner is to find. */
export const newHandle = (): string => asHandle(randomBytes(BYTES))
