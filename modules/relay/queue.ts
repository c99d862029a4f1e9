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
const RETENTION_MS = 90 * DAY_MS
/** For all senders together. */
const MAX_TOTAL = 1_000

const messagesIn = (value: unknown): readonly QueuedMessage[] => (value ?? []) as readonly QueuedMessage[]
const currentMessages = (value: unknown, now: number): readonly QueuedMessage[] =>
  messagesIn(value).filter(({ at }) => at > now - RETENTION_MS)
const optedOutNames = (value: unknown): readonly string[] => (value ?? []) as readonly string[]
const isFor = (nick: string) => {
  const foldedNick = sameName(nick)
  return ({ to }: QueuedMessage): boolean => sameName(to) === foldedNick
}

/** Adds a message. @returns the number of messages waiting for the recipient @throws ToolError if a queue is full */
export async function enqueue(
  kv: Kv,
  message: Pick<QueuedMessage, 'from' | 'to' | 'text'>,
  maxPerPerson: number,
  now: number,
): Promise<number> {
  const { from, to } = message
  const foldedSender = sameName(from)
  return await kv.update(QUEUE, (value) => {
    const queue = currentMessages(value, now)
    const receivedCount = queue.filter(isFor(to)).length
    if (receivedCount >= maxPerPerson)
      throw overloaded(
        `${to} has ${receivedCount} messages waiting already, which is the most.`,
        'Try again after they were read.',
      )
    const sentCount = queue.filter((queued) => sameName(queued.from) === foldedSender).length
    if (sentCount >= maxPerPerson)
      throw overloaded(
        `${from} has ${sentCount} messages waiting already, which is the most.`,
        'Wait until one was read.',
      )
    if (queue.length >= MAX_TOTAL) throw overloaded('Too many messages are waiting here.', 'Try again later.')
    const newMessage: QueuedMessage = { ...message, id: randomBytes(6).toString('hex'), at: now }
    return { value: [...queue, newMessage], result: receivedCount + 1 }
  })
}

/** Waiting messages of a recipient, oldest first. */
export const waitingFor = async (kv: Kv, nick: string, now: number): Promise<readonly QueuedMessage[]> =>
  currentMessages(await kv.get(QUEUE), now).filter(isFor(nick))

/**
 * Removes and returns the waiting messages of a recipient, so that each is delivered once. A recipient who has opted
 * out gets none, and they are dropped.
 */
export async function dequeue(kv: Kv, nick: string, now: number): Promise<readonly QueuedMessage[]> {
  // Most recipients have none, and reading needs no lock.
  if ((await waitingFor(kv, nick, now)).length === 0) return []
  const optedOut = await hasOptedOut(kv, nick)
  return await kv.update(QUEUE, (value) => {
    const queue = currentMessages(value, now)
    const isForNick = isFor(nick)
    return {
      value: queue.filter((message) => !isForNick(message)),
      result: optedOut ? [] : queue.filter(isForNick),
    }
  })
}

/** Removes the waiting messages of a recipient from the queue, and returns the text of each. */
export const takeDeliveries = async (kv: Kv, nick: string, now: number): Promise<string[]> =>
  (await dequeue(kv, nick, now)).map((message) => deliveryText(message, now))

/** Puts back messages that could not be delivered. */
export const requeue = (kv: Kv, messages: readonly QueuedMessage[]): Promise<void> =>
  kv.update(QUEUE, (value) => ({ value: [...messages, ...messagesIn(value)], result: undefined }))

export const hasOptedOut = async (kv: Kv, nick: string): Promise<boolean> =>
  optedOutNames(await kv.get(OPTED_OUT)).includes(sameName(nick))

/** Returns whether that changed anything. */
export const setOptedOut = (kv: Kv, nick: string, optedOut: boolean): Promise<boolean> =>
  kv.update(OPTED_OUT, (value) => {
    const foldedNick = sameName(nick)
    const names = optedOutNames(value)
    if (names.includes(foldedNick) === optedOut) return { result: false }
    return { value: optedOut ? [...names, foldedNick] : names.filter((name) => name !== foldedNick), result: true }
  })

const UNITS = [
  ['day', DAY_MS],
  ['hour', 60 * 60_000],
  ['minute', 60_000],
] as const

function formatAge(ms: number): string {
  for (const [unit, size] of UNITS) {
    const count = Math.floor(ms / size)
    if (count > 0) return `${count} ${unit}${count === 1 ? '' : 's'} ago`
  }
  return 'just now'
}

/** The message for its recipient. No character in the text can end the quotation. */
export const deliveryText = ({ from, to, text, at }: QueuedMessage, now: number): string =>
  `${to}: ${from} left you a message ${formatAge(now - at)}: "${text.replaceAll('"', "'")}"`
