/** What must survive a restart, as documents by kind and id. One interface for one machine and for many. */
export interface Store {
  /** @param fits what other values are left alone, as if they could not be read; default any */
  table<T>(kind: string, fits?: (value: unknown) => boolean): Table<T>
  /** What was kept before was damaged then and is put aside; in milliseconds since the epoch. */
  readonly lostAt?: number
  close(): Promise<void>
}

/** A document with the number that changes each time it is written. */
export interface Stored<T> {
  readonly id: string
  /** Whose it is; lists are made by it. */
  readonly owner: string
  readonly value: T
  readonly revision: number
}

export interface Write<T> {
  readonly id: string
  readonly owner: string
  readonly value: T
  /** Milliseconds since the epoch; it is not there any more after that. */
  readonly expiresAt?: number
  /** A new one is not written where its owner has so many, whoever else writes at the same time. */
  readonly atMost?: number
}

export interface Table<T> {
  get(id: string): Promise<Stored<T> | undefined>
  /**
   * Writes it whole.
   * @param expected the revision it must have now, 0 for none at all; default any
   * @returns the new revision, or undefined when another was faster or there are too many, and nothing is changed then
   */
  put(write: Write<T>, expected?: number): Promise<number | undefined>
  /** Whether there was one. @param expected the revision it must have now; default any */
  delete(id: string, expected?: number): Promise<boolean>
  /** Oldest first. @param owner default everybody's */
  list(owner?: string): Promise<readonly Stored<T>[]>
  count(owner?: string): Promise<number>
}
