import { PegboardError } from '../core/errors.ts'
import type { Documents } from './document-store.ts'
import { createKeyedQueue } from './keyed-queue.ts'
import type { Table } from './store.ts'

const ATTEMPTS = 100

/**
 * Documents in a store that several machines share. If another writer was faster, the change is applied again to the
 * newer value.
 * @param owner of the documents; keys are separate for each owner
 * @param expiresAt when a document written now expires, in milliseconds since the epoch; default never
 */
export function createStoreDocuments<Value>(
  table: () => Table<Value>,
  owner: string,
  expiresAt: () => number | undefined = () => undefined,
): Documents<Value> {
  const prefix = `${owner}/`
  const inTurn = createKeyedQueue()

  const changed: Documents<Value>['update'] = async (key, change) => {
    const id = prefix + key
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const stored = await table().get(id)
      const { value, result } = change(stored?.value)
      if (value === undefined) return result
      const until = expiresAt()
      const write = { id, owner, value, ...(until === undefined ? {} : { expiresAt: until }) }
      if ((await table().put(write, stored?.revision ?? 0)) !== undefined) return result
    }
    throw new PegboardError('E_BACKEND_UNAVAILABLE', 'Other processes change the same document all the time.', {
      hint: 'Try again later.',
    })
  }

  return {
    read: async (key) => (await table().get(prefix + key))?.value,
    update: (key, change) => inTurn(key, () => changed(key, change)),
    keys: async () => (await table().list(owner)).map(({ id }) => id.slice(prefix.length)),
  }
}
