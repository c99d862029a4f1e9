/**
 * A limit on the bytes that each owner may hold at once.
 * @param maxBytes maximum number of bytes for one owner
 */
export function createByteBudget(maxBytes: number) {
  const bytesByOwner = new Map<string, number>()
  return {
    /** @returns false, without holding more bytes, if the owner would exceed the limit */
    hold(who: string, bytes: number): boolean {
      const total = (bytesByOwner.get(who) ?? 0) + bytes
      if (total > maxBytes) return false
      bytesByOwner.set(who, total)
      return true
    },
    free(who: string, bytes: number): void {
      const remaining = (bytesByOwner.get(who) ?? 0) - bytes
      if (remaining > 0) bytesByOwner.set(who, remaining)
      else bytesByOwner.delete(who)
    },
  }
}
