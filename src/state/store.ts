/** Durable documents by kind and id. The same interface serves one machine and many. */
export interface Store {
  /**
   * @param fits checks values; values that do not fit are left alone, as if they could not be read. Default: any
   * value fits
   */
  table<T>(kind: string, fits?: (value: unknown) => boolean): Table<T>
  /** When damaged data was put aside, in milliseconds since the epoch. Absent if nothing was damaged. */
  readonly lostAt?: number
  close(): Promise<void>
}

/** A document with a revision number that changes with each write. */
export interface StoredDocument<T> {
  readonly id: string
  /** Owner of the document; lists are made by owner. */
  readonly owner: string
  readonly value: T
  readonly revision: number
}

export interface DocumentWrite<T> extends Omit<StoredDocument<T>, 'revision'> {
  /** Milliseconds since the epoch. The document is gone after that. */
  readonly expiresAt?: number
  /** Maximum number of documents of the owner; a new document is not written if the owner already has this many. */
  readonly atMost?: number
}

export interface Table<T> {
  get(id: string): Promise<StoredDocument<T> | undefined>
  /**
   * Writes the whole document.
   * @param expected revision that the document must have now, 0 for none; default any
   * @returns the new revision, or undefined when nothing was written because another writer was faster or the owner
   * has too many
   */
  put(write: DocumentWrite<T>, expected?: number): Promise<number | undefined>
  /** Deletes a document. @param expected revision that it must have now; default any @returns whether it existed */
  delete(id: string, expected?: number): Promise<boolean>
  /** Oldest first. @param owner default: all owners */
  list(owner?: string): Promise<readonly StoredDocument<T>[]>
  count(owner?: string): Promise<number>
}
