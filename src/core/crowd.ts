/** One of many that come and go. */
export interface Place<T> {
  readonly value: T
  at: number
}

/**
 * What is under way, in no order. A `Map` or `Set` that many enter and leave is made anew all the time, and each holds the
 * next one in memory together with all that was in it; here nothing is left of who has left.
 */
export interface Crowd<T> {
  readonly places: readonly Place<T>[]
  enter(value: T): Place<T>
  leave(place: Place<T>): void
}

export function createCrowd<T>(): Crowd<T> {
  const places: Place<T>[] = []
  return {
    places,
    enter(value) {
      const place = { value, at: places.length }
      places.push(place)
      return place
    },
    leave(place) {
      if (places[place.at] !== place) return
      const last = places.pop() as Place<T>
      if (last === place) return
      places[place.at] = last
      last.at = place.at
    },
  }
}
