import type { Snapshot } from '../catalog/catalog.ts'
import type { Caller, Turn } from '../core/caller.ts'
import { setNewest } from '../core/drop-oldest.ts'
import type { DeliberateSettings } from './deliberate-options.ts'
import { asksFor, isFollowUp, prepareMessage } from './intent-wording.ts'

/** The intents of all tools of modules, sorted. Tools of servers have none, so lazy tools need not be created. */
export function intentsOf({ owners }: Pick<Snapshot, 'owners'>): readonly string[] {
  const intents = new Set<string>()
  for (const owner of owners.values())
    if (owner.origin === 'module')
      for (const { intent } of owner.tools) if (typeof intent === 'string') intents.add(intent)
  return [...intents].sort()
}

/** Default: off, unless the user wants it. */
const defaultSettings: DeliberateSettings = { enabled: false, keepTurns: 4, triggers: {} }

interface Conversation {
  turn: number
  message: string
  generation: string | undefined
  /** Recent answers. A late request for one of them does not begin a turn. */
  readonly generations: string[]
  /** For each intent, the turn in which it was last requested or used. */
  readonly active: Map<string, number>
  /** The settings and intents that `active` was computed from in this turn. */
  settings?: DeliberateSettings
  intents?: readonly string[]
}

const MAX_PRINCIPALS = 1_000
const MAX_CONVERSATIONS = 100
const MAX_GENERATIONS = 8
const MAX_MESSAGE = 4_000
/** After so many turns, "one more" no longer means the earlier intent. */
const FOLLOW_UP_TURNS = 10

/** Deliberate mode: remembers what each conversation asked for, because a picture is often followed by another one. */
export function createDeliberateMode() {
  const principals = new Map<string, Map<string, Conversation>>()

  /** The conversation of a caller, which becomes the most recent one. */
  function conversationOf({ principal, profile, session, origin }: Caller, isNew: boolean): Conversation | undefined {
    let conversations = principals.get(principal)
    if (!conversations && !isNew) return undefined
    conversations = setNewest(principals, principal, conversations ?? new Map(), MAX_PRINCIPALS)
    const key = JSON.stringify([profile, session ?? '', origin?.platform ?? '', origin?.channelId ?? ''])
    const conversation = conversations.get(key)
    if (!conversation && !isNew) return undefined
    const created = { turn: 0, message: '', generation: undefined, generations: [], active: new Map() }
    return setNewest(conversations, key, conversation ?? created, MAX_CONVERSATIONS)
  }

  return {
    /**
     * The intents of `intents` whose tools this caller sees now, in the same order; `undefined` if all tools are
     * offered, because neither the profile nor the user wants deliberate mode, or there is no message.
     */
    offered(
      caller: Caller,
      settings: DeliberateSettings | undefined = defaultSettings,
      intents: readonly string[],
    ): readonly string[] | undefined {
      const { turn } = caller
      if (!turn || turn.deliberate === 'off' || !(settings.enabled || turn.deliberate === 'on')) return undefined
      const { message: sentMessage = '', generation } = turn
      if (sentMessage.trim() === '' && generation === undefined) return undefined
      const conversation = conversationOf(caller, true) as Conversation
      const isLate = advance(conversation, sentMessage, generation)
      const message = sentMessage.trim() === '' ? conversation.message : sentMessage
      if (message.trim() === '') return undefined
      if (isLate) {
        const prepared = prepareMessage(message)
        return intents.filter(
          (one) => isKept(conversation, one, settings) || asksFor(prepared, one, phrasesFor(settings, one)),
        )
      }
      if (conversation.settings !== settings || conversation.intents !== intents) {
        recordMessage(conversation, message, settings, intents)
        conversation.settings = settings
        conversation.intents = intents
      }
      return intents.filter((one) => isKept(conversation, one, settings))
    },
    recordUse(caller: Caller, intent: string): void {
      const conversation = conversationOf(caller, false)
      conversation?.active.set(intent, conversation.turn)
    },
  }
}

/** Begins a turn if the message or the answer is new. Returns true for a late request of an earlier turn. */
function advance(conversation: Conversation, sentMessage: string, generation: Turn['generation']): boolean {
  // A copy, because a substring would keep the whole text in memory.
  const message =
    sentMessage.length > MAX_MESSAGE ? Buffer.from(sentMessage.slice(0, MAX_MESSAGE)).toString() : sentMessage
  const isOther = message.trim() !== '' && message !== conversation.message
  const isNext = generation !== undefined && generation !== conversation.generation
  if (!isOther && !isNext) return false
  if (isNext && conversation.generations.includes(generation)) return true
  conversation.turn++
  conversation.message = message
  delete conversation.settings
  delete conversation.intents
  if (generation !== undefined) {
    conversation.generation = generation
    if (!conversation.generations.includes(generation)) conversation.generations.push(generation)
    if (conversation.generations.length > MAX_GENERATIONS) conversation.generations.shift()
  }
  return false
}

const phrasesFor = ({ triggers }: DeliberateSettings, intent: string): readonly string[] | undefined =>
  Object.hasOwn(triggers, intent) ? triggers[intent] : undefined

function recordMessage(
  conversation: Conversation,
  message: string,
  settings: DeliberateSettings,
  intents: readonly string[],
): void {
  const prepared = prepareMessage(message)
  const requestedIntents = intents.filter((one) => asksFor(prepared, one, phrasesFor(settings, one)))
  if (requestedIntents.length === 0 && isFollowUp(prepared)) requestedIntents.push(...lastOf(conversation))
  for (const intent of requestedIntents) conversation.active.set(intent, conversation.turn)
}

/** The intents that were last requested or used, unless that was long ago. */
function lastOf({ active, turn }: Conversation): string[] {
  const last = Math.max(...active.values())
  return turn - last > FOLLOW_UP_TURNS ? [] : [...active.keys()].filter((intent) => active.get(intent) === last)
}

const isKept = ({ active, turn }: Conversation, intent: string, { keepTurns }: DeliberateSettings): boolean =>
  turn - (active.get(intent) ?? Number.NEGATIVE_INFINITY) <= keepTurns
