/**
 * A limit on the bytes that each owner may hold at once.
 * @param maxBytes maximum number of bytes for one owner
 */
export function createByteBudget(maxBytes: number) {
  const bytesByOwner = new Map<string, number>()
  return {
    /** @returns false, without holding more bytes, if the owner would exceed the limit */
    hold(owner: string, bytes: number): boolean {
      const total = (bytesByOwner.get(owner) ?? 0) + bytes
      if (total > maxBytes) return false
      bytesByOwner.set(owner, total)
      return true
    },
    free(owner: string, bytes: number): void {
      const remaining = (bytesByOwner.get(owner) ?? 0) - bytes
      if (remaining > 0) bytesByOwner.set(owner, remaining)
      else bytesByOwner.delete(owner)
    },
  }
}
