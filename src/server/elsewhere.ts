import { randomBytes, randomUUID } from 'node:crypto'
import type { Clock } from '../core/clock.ts'
import { type ErrorCode, isPegboardError, PegboardError } from '../core/errors.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/failure.ts'
import type { Shared } from '../state/shared.ts'
import type { Turn } from './park.ts'

type Json = Readonly<Record<string, unknown>>

type Failure =
  | { readonly protocol: number; readonly message: string; readonly data: unknown }
  | { readonly code: ErrorCode; readonly message: string; readonly hint: string; readonly retryable: boolean }

/** What processes tell each other of a request that only one of them can serve; `turn` names it. */
type Said = { readonly turn: string } & (
  | {
      readonly kind: 'ask'
      readonly what: string
      readonly of: Json
      readonly relay: Pick<
        Turn['relay'],
        'principal' | 'wantsProgress' | 'meta' | 'inputResponses' | 'clientCapabilities'
      >
    }
  | { readonly kind: 'here' }
  | { readonly kind: 'progress'; readonly progress: Parameters<NonNullable<Turn['onProgress']>> }
  | { readonly kind: 'notify'; readonly method: string; readonly params: unknown }
  | { readonly kind: 'done'; readonly outcome: Json }
  | { readonly kind: 'failed'; readonly failure: Failure }
  | { readonly kind: 'gone' }
)

const TOPIC = 'ask'
const INTERNAL = -32603
/** Who serves it says so at once, and again and again until it is over. */
const FIRST_WORD_MS = 1_500
const WORD_MS = 2_000
const SILENCE_MS = 6_000

interface Waiting {
  readonly turn: Turn
  word(): void
  resolve(outcome: Json): void
  reject(error: unknown): void
}

type Answer = (of: Json, turn: Turn) => Promise<Json> | undefined

/** Requests that are served by whichever other process can. */
export interface Elsewhere {
  /** Of this process. */
  readonly mark: string
  /** Answers nothing when no other process can serve it. Rejects as that does, and when it falls silent. */
  ask(what: string, of: Json, turn: Turn): Promise<Json | undefined>
  /** @param answer gives nothing for what this process cannot serve */
  answer(what: string, answer: Answer): void
}

export function createElsewhere(shared: Pick<Shared, 'tell' | 'hear'>, clock: Clock): Elsewhere {
  const answers = new Map<string, Answer>()
  const waiting = new Map<string, Waiting>()
  const served = new Map<string, AbortController>()
  const say = (said: Said): void => shared.tell(TOPIC, JSON.stringify(said))

  function serve({ turn, what, of, relay }: Said & { readonly kind: 'ask' }): void {
    const ending = new AbortController()
    const outcome = answers.get(what)?.(of, {
      relay: { ...relay, notify: (method, params) => say({ turn, kind: 'notify', method, params }) },
      signal: ending.signal,
      onProgress: (...progress) => say({ turn, kind: 'progress', progress }),
    })
    if (!outcome) return
    served.set(turn, ending)
    let cancel: () => void = () => undefined
    const word = (): void => {
      say({ turn, kind: 'here' })
      cancel = clock.after(WORD_MS, word)
    }
    word()
    outcome
      .then(
        (done) => say({ turn, kind: 'done', outcome: done }),
        (error: unknown) => say({ turn, kind: 'failed', failure: failureOf(error) }),
      )
      .finally(() => {
        cancel()
        served.delete(turn)
      })
  }

  shared.hear(TOPIC, (text) => {
    const said = JSON.parse(text) as Said
    if (said.kind === 'ask') return serve(said)
    if (said.kind === 'gone') return served.get(said.turn)?.abort()
    const one = waiting.get(said.turn)
    if (!one) return
    one.word()
    if (said.kind === 'progress') one.turn.onProgress?.(...said.progress)
    else if (said.kind === 'notify') one.turn.relay.notify?.(said.method, said.params)
    else if (said.kind === 'done') one.resolve(said.outcome)
    else if (said.kind === 'failed') one.reject(errorOf(said.failure))
  })

  const ask: Elsewhere['ask'] = (what, of, turn) =>
    new Promise((resolve, reject) => {
      const name = randomUUID()
      const end = (): void => {
        cancel()
        waiting.delete(name)
        turn.signal?.removeEventListener('abort', gone)
      }
      const settled =
        <T>(then: (value: T) => void) =>
        (value: T): void => {
          end()
          then(value)
        }
      const gone = (): void => {
        say({ turn: name, kind: 'gone' })
        settled(reject)(turn.signal?.reason)
      }
      let cancel = clock.after(FIRST_WORD_MS, () => settled(resolve)(undefined))
      turn.signal?.addEventListener('abort', gone, { once: true })
      waiting.set(name, {
        turn,
        word() {
          cancel()
          cancel = clock.after(SILENCE_MS, () =>
            settled(reject)(new PegboardError('E_SHUTTING_DOWN', 'The server that had this has gone.')),
          )
        },
        resolve: settled(resolve),
        reject: settled(reject),
      })
      const { principal: whose, wantsProgress, meta, inputResponses, clientCapabilities } = turn.relay
      const relay = {
        ...(whose === undefined ? {} : { principal: whose }),
        ...(wantsProgress === undefined ? {} : { wantsProgress }),
        meta,
        inputResponses,
        clientCapabilities,
      }
      say({ turn: name, kind: 'ask', what, of, relay })
    })
  return { mark: randomBytes(6).toString('hex'), ask, answer: (what, answer) => void answers.set(what, answer) }
}

function failureOf(error: unknown): Failure {
  if (isProtocolFailure(error)) return { protocol: error.code, message: error.message, data: error.data }
  if (isPegboardError(error)) {
    const { code, message, hint, retryable } = error
    return { code, message, hint, retryable }
  }
  // What it says may hold paths and addresses, and who reads it is a client.
  return { protocol: INTERNAL, message: 'Internal error', data: undefined }
}

const errorOf = (failure: Failure): Error =>
  'protocol' in failure
    ? new ProtocolFailure(failure.protocol, failure.message, failure.data)
    : new PegboardError(failure.code, failure.message, { hint: failure.hint, retryable: failure.retryable })
