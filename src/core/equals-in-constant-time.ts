import { timingSafeEqual } from 'node:crypto'

/** Compares two texts, one of which is secret, so that the time does not tell where they differ. */
export function equalsInConstantTime(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)]
  return left.length === right.length && timingSafeEqual(left, right)
}
