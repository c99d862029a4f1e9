import { randomBytes } from 'node:crypto'
import type { Kv } from 'pegboard'
import { overloaded } from '../_errors.ts'
import { sameName } from '../_names.ts'

/** A message waiting for its recipient. */
export interface QueuedMessage {
  readonly id: string
  readonly from: string
  readonly to: string
  readonly text: string
  /** Milliseconds since the epoch. */
  readonly at: number
}

const QUEUE = 'queue'
const OPTED_OUT = 'opted_out'
const DAY_MS = 24 * 60 * 60_000
const KEPT_MS = 90 * DAY_MS
/** For all senders together. */
const MAX_ALL = 1_000

const unexpired = (value: unknown, now: number): readonly QueuedMessage[] =>
  ((value ?? []) as readonly QueuedMessage[]).filter(({ at }) => at > now - KEPT_MS)
const outsIn = (value: unknown): readonly string[] => (value ?? []) as readonly string[]
const isFor = (nick: string) => {
  const foldedNick = sameName(nick)
  return ({ to }: QueuedMessage): boolean => sameName(to) === foldedNick
}

/** Adds a message. @returns the number of messages waiting for the recipient @throws ToolError if a queue is full */
export async function enqueue(
  kv: Kv,
  message: Pick<QueuedMessage, 'from' | 'to' | 'text'>,
  most: number,
  now: number,
): Promise<number> {
  const { from, to } = message
  const ours = sameName(from)
  return await kv.update(QUEUE, (value) => {
    const all = unexpired(value, now)
    const before = all.filter(isFor(to)).length
    if (before >= most)
      throw overloaded(
        `${to} has ${before} messages waiting already, which is the most.`,
        'Try again after they were read.',
      )
    const sent = all.filter((one) => sameName(one.from) === ours).length
    if (sent >= most)
      throw overloaded(`${from} has ${sent} messages waiting already, which is the most.`, 'Wait until one was read.')
    if (all.length >= MAX_ALL) throw overloaded('Too many messages are waiting here.', 'Try again later.')
    const added: QueuedMessage = { ...message, id: randomBytes(6).toString('hex'), at: now }
    return { value: [...all, added], result: before + 1 }
  })
}

/** Waiting messages of a recipient, oldest first. */
export const waitingFor = async (kv: Kv, nick: string, now: number): Promise<readonly QueuedMessage[]> =>
  unexpired(await kv.get(QUEUE), now).filter(isFor(nick))

/**
 * Removes and returns the waiting messages of a recipient, so that each is delivered once. A recipient who has opted
 * out gets none, and they are dropped.
 */
export async function dequeue(kv: Kv, nick: string, now: number): Promise<readonly QueuedMessage[]> {
  // Most recipients have none, and reading needs no lock.
  if ((await waitingFor(kv, nick, now)).length === 0) return []
  const out = await hasOptedOut(kv, nick)
  return await kv.update(QUEUE, (value) => {
    const all = unexpired(value, now)
    const isTheirs = isFor(nick)
    return { value: all.filter((one) => !isTheirs(one)), result: out ? [] : all.filter(isTheirs) }
  })
}

/** Puts back messages that could not be delivered. */
export const requeue = (kv: Kv, messages: readonly QueuedMessage[]): Promise<void> =>
  kv.update(QUEUE, (value) => ({
    value: [...messages, ...((value ?? []) as readonly QueuedMessage[])],
    result: undefined,
  }))

export const hasOptedOut = async (kv: Kv, nick: string): Promise<boolean> =>
  outsIn(await kv.get(OPTED_OUT)).includes(sameName(nick))

/** Returns whether that changed anything. */
export const setOptedOut = (kv: Kv, nick: string, out: boolean): Promise<boolean> =>
  kv.update(OPTED_OUT, (value) => {
    const foldedNick = sameName(nick)
    const all = outsIn(value)
    if (all.includes(foldedNick) === out) return { result: false }
    return { value: out ? [...all, foldedNick] : all.filter((one) => one !== foldedNick), result: true }
  })

const UNITS = [
  ['day', DAY_MS],
  ['hour', 60 * 60_000],
  ['minute', 60_000],
] as const

function age(ms: number): string {
  for (const [unit, size] of UNITS) {
    const count = Math.floor(ms / size)
    if (count > 0) return `${count} ${unit}${count === 1 ? '' : 's'} ago`
  }
  return 'just now'
}

/** The message for its recipient. No character in the text can end the quotation. */
export const deliveryText = ({ from, to, text, at }: QueuedMessage, now: number): string =>
  `${to}: ${from} left you a message ${age(now - at)}: "${text.replaceAll('"', "'")}"`
