import type { Message } from '../../core/jsonrpc.ts'

interface Batch {
  readonly unanswered: Set<unknown>
  readonly answers: object[]
}

/**
 * Joins the answers to a JSON-RPC batch into one message.
 * @param write gets all answers of a batch
 */
export function createBatches(write: (answers: readonly object[]) => void) {
  const pending = new Map<unknown, Batch>()

  function settle(id: unknown, answer?: object): boolean {
    const batch = pending.get(id)
    if (!batch) return false
    pending.delete(id)
    batch.unanswered.delete(id)
    if (answer) batch.answers.push(answer)
    finish(batch)
    return true
  }
  const finish = ({ unanswered, answers }: Batch): void => {
    if (unanswered.size === 0 && answers.length > 0) write(answers)
  }

  return {
    /** @param ids ids of the requests that are answered later @param answers answers to the other requests */
    open(ids: readonly unknown[], answers: readonly object[]): void {
      const batch: Batch = { unanswered: new Set(ids), answers: [...answers] }
      for (const id of ids) pending.set(id, batch)
      finish(batch)
    },
    /** Takes the answer to a request of a batch; false for any other message. */
    takeAnswer: (message: object): boolean =>
      pending.size > 0 && !('method' in message) && settle((message as Message).id, message),
    /** Removes a cancelled request, which gets no answer. */
    cancel: (id: unknown): void => void settle(id),
  }
}
