import type { Snapshot } from '../catalog/catalog.ts'
import type { Caller, Turn } from '../core/context.ts'
import type { DeliberateSettings } from './deliberate-options.ts'
import { asksFor, isFollowUp, readMessage } from './wording.ts'

/** Remembers what each conversation asked for, because a picture is often followed by one more. */
export interface Deliberate {
  /**
   * Those of `intents` whose tools are offered to this caller now, in their order; `undefined` when all tools are: the
   * profile and the person do not want it otherwise, or there is no message to go by.
   */
  offered(
    caller: Caller,
    settings: DeliberateSettings | undefined,
    intents: readonly string[],
  ): readonly string[] | undefined
  /** A tool with this intent ran. */
  used(caller: Caller, intent: string): void
}

/** The intents of all modules' tools, sorted. Servers' tools have none, and are not made to find that out. */
export function intentsOf({ owners }: Pick<Snapshot, 'owners'>): readonly string[] {
  const intents = new Set<string>()
  for (const owner of owners.values())
    if (owner.origin === 'module')
      for (const { intent } of owner.tools) if (typeof intent === 'string') intents.add(intent)
  return [...intents].sort()
}

/** Where nobody said anything: off, unless the person wants it. */
const usual: DeliberateSettings = { enabled: false, keepTurns: 4, triggers: {} }

/** One conversation. Turns are counted from one. */
interface Chat {
  turn: number
  message: string
  generation: string | undefined
  /** Answers under way lately, so that a late request begins no turn. */
  readonly generations: string[]
  /** The turn in which each intent was last asked for or used. */
  readonly active: Map<string, number>
  /** What `active` was worked out from in this turn. */
  settings?: DeliberateSettings
  intents?: readonly string[]
}

const MAX_PRINCIPALS = 1_000
const MAX_CHATS = 100
const MAX_GENERATIONS = 8
const MAX_MESSAGE = 4_000
/** "One more" after so many turns about something else means that. */
const FOLLOW_UP_TURNS = 10

export function createDeliberate(): Deliberate {
  const principals = new Map<string, Map<string, Chat>>()

  /** The conversation of a caller, which then is the one that was looked at last. */
  function chatOf({ principal, profile, session, origin }: Caller, isNew: boolean): Chat | undefined {
    let chats = principals.get(principal)
    if (!chats && !isNew) return undefined
    chats = touch(principals, principal, chats ?? new Map(), MAX_PRINCIPALS)
    const key = JSON.stringify([profile, session ?? '', origin?.platform ?? '', origin?.channelId ?? ''])
    const chat = chats.get(key)
    if (!chat && !isNew) return undefined
    return touch(
      chats,
      key,
      chat ?? { turn: 0, message: '', generation: undefined, generations: [], active: new Map() },
      MAX_CHATS,
    )
  }

  return {
    offered(caller, settings = usual, intents) {
      const { turn } = caller
      if (!turn || turn.deliberate === 'off' || !(settings.enabled || turn.deliberate === 'on')) return undefined
      const { message: said = '', generation } = turn
      if (said.trim() === '' && generation === undefined) return undefined
      const chat = chatOf(caller, true) as Chat
      const isLate = advance(chat, said, generation)
      const message = said.trim() === '' ? chat.message : said
      if (message.trim() === '') return undefined
      if (isLate) {
        const read = readMessage(message)
        return intents.filter((one) => isKept(chat, one, settings) || asksFor(read, one, phrasesFor(settings, one)))
      }
      if (chat.settings !== settings || chat.intents !== intents) {
        note(chat, message, settings, intents)
        chat.settings = settings
        chat.intents = intents
      }
      return intents.filter((one) => isKept(chat, one, settings))
    },
    used(caller, intent) {
      const chat = chatOf(caller, false)
      chat?.active.set(intent, chat.turn)
    },
  }
}

/** Begins the next turn where the message or the answer is another one. Answers `true` for a request of an earlier one. */
function advance(chat: Chat, said: string, generation: Turn['generation']): boolean {
  // Copied, as a part of a text keeps the whole of it in memory.
  const message = said.length > MAX_MESSAGE ? Buffer.from(said.slice(0, MAX_MESSAGE)).toString() : said
  const isOther = message.trim() !== '' && message !== chat.message
  const isNext = generation !== undefined && generation !== chat.generation
  if (!isOther && !isNext) return false
  if (isNext && chat.generations.includes(generation)) return true
  chat.turn++
  chat.message = message
  delete chat.settings
  delete chat.intents
  if (generation !== undefined) {
    chat.generation = generation
    if (!chat.generations.includes(generation)) chat.generations.push(generation)
    if (chat.generations.length > MAX_GENERATIONS) chat.generations.shift()
  }
  return false
}

const phrasesFor = ({ triggers }: DeliberateSettings, intent: string): readonly string[] | undefined =>
  Object.hasOwn(triggers, intent) ? triggers[intent] : undefined

/** Writes down what the message of this turn asks for. */
function note(chat: Chat, message: string, settings: DeliberateSettings, intents: readonly string[]): void {
  const read = readMessage(message)
  const asked = intents.filter((one) => asksFor(read, one, phrasesFor(settings, one)))
  if (asked.length === 0 && isFollowUp(read)) asked.push(...lastOf(chat))
  for (const intent of asked) chat.active.set(intent, chat.turn)
}

/** What was asked for or used last, unless that is long ago. */
function lastOf({ active, turn }: Chat): string[] {
  const last = Math.max(...active.values())
  return turn - last > FOLLOW_UP_TURNS ? [] : [...active.keys()].filter((intent) => active.get(intent) === last)
}

const isKept = ({ active, turn }: Chat, intent: string, { keepTurns }: DeliberateSettings): boolean =>
  turn - (active.get(intent) ?? Number.NEGATIVE_INFINITY) <= keepTurns

/** Puts an entry last, and lets the first go where there are too many. */
function touch<T>(map: Map<string, T>, key: string, value: T, max: number): T {
  map.delete(key)
  if (map.size >= max) map.delete(map.keys().next().value as string)
  map.set(key, value)
  return value
}
