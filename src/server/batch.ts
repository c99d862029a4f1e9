import type { Message } from '../core/jsonrpc.ts'

/** Requests that came as one JSON-RPC batch are answered as one. */
export interface Batches {
  /** @param ids of the requests, which are answered later; @param answers what is known already */
  open(ids: readonly unknown[], answers: readonly object[]): void
  /** Takes what answers a request of a batch; answers false for everything else. */
  answered(message: object): boolean
  /** A cancelled request gets no answer, so the others do not wait for it. */
  cancelled(id: unknown): void
}

interface Batch {
  readonly owed: Set<unknown>
  readonly answers: object[]
}

/** @param write is given all answers of a batch, once there are no more to come */
export function createBatches(write: (answers: readonly object[]) => void): Batches {
  const pending = new Map<unknown, Batch>()

  function settle(id: unknown, answer?: object): boolean {
    const batch = pending.get(id)
    if (!batch) return false
    pending.delete(id)
    batch.owed.delete(id)
    if (answer) batch.answers.push(answer)
    finish(batch)
    return true
  }
  const finish = ({ owed, answers }: Batch): void => {
    if (owed.size === 0 && answers.length > 0) write(answers)
  }

  return {
    open(ids, answers) {
      const batch: Batch = { owed: new Set(ids), answers: [...answers] }
      for (const id of ids) pending.set(id, batch)
      finish(batch)
    },
    answered: (message) => pending.size > 0 && !('method' in message) && settle((message as Message).id, message),
    cancelled: (id) => void settle(id),
  }
}
