import { PegboardError } from '../core/errors.ts'
import type { Documents } from './documents.ts'
import type { Table } from './store.ts'
import { createTurns } from './turns.ts'

const ATTEMPTS = 100

/**
 * The same documents in a store that several machines share: who was slower looks again and changes what the other wrote.
 * @param owner whose they are; keys are its own
 * @param expiresAt when one that is written now is no longer needed, in milliseconds since the epoch; default never
 */
export function createStoreDocuments<Value>(
  table: () => Table<Value>,
  owner: string,
  expiresAt: () => number | undefined = () => undefined,
): Documents<Value> {
  const prefix = `${owner}/`
  const inTurn = createTurns()

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
    throw new PegboardError('E_BACKEND_UNAVAILABLE', 'Others change the same all the time.', {
      hint: 'Try again later.',
    })
  }

  return {
    read: async (key) => (await table().get(prefix + key))?.value,
    update: (key, change) => inTurn(key, () => changed(key, change)),
    keys: async () => (await table().list(owner)).map(({ id }) => id.slice(prefix.length)),
  }
}
