/** Values under growing numbers, of which few are there at a time: an array, because a `Map` is made anew all the time. */
export interface Numbered<T> {
  readonly size: number
  /** Puts it under the next number, and says which that is. */
  add(value: T): number
  get(number: number): T | undefined
  delete(number: number): boolean
  values(): T[]
}

export function createNumbered<T>(): Numbered<T> {
  let slots: ({ readonly number: number; readonly value: T } | undefined)[] = new Array(64).fill(undefined)
  let next = 0
  let size = 0
  const at = (number: number) => slots[number & (slots.length - 1)]

  // Numbers that lie as far apart as this is long meet again, also the next of each.
  function grow(): void {
    const before = slots
    slots = new Array(2 * before.length).fill(undefined)
    for (const one of before) if (one) slots[one.number & (slots.length - 1)] = one
  }

  return {
    get size() {
      return size
    },
    add(value) {
      if (size * 2 >= slots.length) grow()
      // A number whose place is still taken is left out.
      do next++
      while (at(next))
      slots[next & (slots.length - 1)] = { number: next, value }
      size++
      return next
    },
    get(number) {
      const found = at(number)
      return found?.number === number ? found.value : undefined
    },
    delete(number) {
      if (at(number)?.number !== number) return false
      slots[number & (slots.length - 1)] = undefined
      size--
      return true
    },
    values: () => slots.flatMap((one) => (one ? [one.value] : [])),
  }
}
