import { randomBytes } from 'node:crypto'

const BYTES = 16
const CHARS = 25

/** 16 bytes in base 36: fewer tokens than hexadecimal, and no capital letters that a model could confuse. */
export const toId = (bytes: Buffer): string =>
  BigInt(`0x${bytes.subarray(0, BYTES).toString('hex')}`)
    .toString(36)
    .padStart(CHARS, '0')

export const randomId = (): string => toId(randomBytes(BYTES))
