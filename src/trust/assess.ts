import { checkDefinition } from './checks.ts'
import type { Finding } from './finding.ts'
import { fingerprint } from './fingerprint.ts'
import type { Pins } from './lock.ts'
import type { Names } from './steering.ts'
import type { Unmet } from './unmet.ts'

export type Mode = 'review' | 'first-use' | 'always'

/** A tool as its server sent it: name, fingerprint and the whole definition as JSON. */
export interface Seen {
  readonly name: string
  readonly hash: string
  readonly text: string
}

/** Tools of others, by what is asked about them: there may be ten thousand. */
export interface Strangers {
  /** Names that look like this, by their skeleton; of each owner one at most. */
  shaped(skeleton: string): readonly string[]
  /** Whether a text may mean one of them by this, in lower case. */
  spelled(spelling: string): boolean
  /** Descriptions of those that are called like this, however it is written. */
  described(name: string): readonly string[]
}

/** One look at all a server offers. */
export interface Look {
  /** The key of its entry. */
  readonly server: string
  readonly mode: Mode
  readonly tools: readonly Seen[]
  /** Definitions that were read just now, by name: their texts and fingerprints are made of these. */
  readonly definitions?: Pick<ReadonlyMap<string, Readonly<Record<string, unknown>>>, 'get'> | undefined
  readonly strangers: Strangers
  /** Its own tools, as others may speak of them. */
  readonly own?: (() => Strangers) | undefined
  readonly reserved: ReadonlySet<string>
  /** Names of all its tools, where `tools` has some of them. */
  readonly names?: Names
  /** Whether a rule of the operator fits no tool of the server any more, now that it no longer has these approved ones. */
  loses?(gone: readonly string[]): boolean
}

/** Why a tool is kept out. */
export interface Held {
  /** `changed`: another definition of it is approved; `rejected`: a person said no to this one. */
  readonly why: 'changed' | 'new' | 'flagged' | 'rejected' | 'unreadable'
  readonly code: 'E_TOOL_CHANGED' | 'E_TOOL_QUARANTINED'
  /** As the end of "it …". Says nothing of what the definition says, so that a model may read it. */
  readonly reason: string
  /** For people: they quote the definition. */
  readonly findings: readonly Finding[]
}

export interface Assessment {
  /** By name. */
  readonly held: ReadonlyMap<string, Held>
  /** Trusted without a person: they belong into the lock. */
  readonly taken: readonly Seen[]
  /** Those of them that would be kept out if tools that they speak of were there. */
  readonly unmet: ReadonlyMap<string, Unmet>
}

export interface Rules {
  readonly pins: Pins | undefined
  /** The lock is there and cannot be read. */
  readonly broken: boolean
  /** The first look is not over: what appears now was there from the start. */
  readonly open?: boolean
  /** Nothing but what the lock has. */
  readonly frozen: boolean
  /** Names of tools that changed and changed back: they wait, also in the first look. */
  readonly flapping?: ReadonlySet<string>
}

const nothing: Assessment = { held: new Map(), taken: [], unmet: new Map() }

/** Decides about every tool of a server. Pure; what the lock already has costs one comparison. */
export function assess(look: Look, rules: Rules): Assessment {
  const { pins } = rules
  const unknown = look.tools.filter(({ name, hash }) => pins?.get(name) !== hash)
  if (unknown.length === 0) return nothing
  const hidesOne = losesRule(look, pins)
  let nobodys: string[] = []
  const around = surroundings(look, (spelling) => nobodys.push(spelling))
  const held = new Map<string, Held>()
  const taken: Seen[] = []
  const unmet = new Map<string, Unmet>()
  for (const tool of unknown) {
    const definition = look.definitions?.get(tool.name) ?? definitionOf(tool)
    nobodys = []
    const findings = definition ? checkDefinition(definition, around, tool.text) : []
    const verdict = definition
      ? verdictOn(tool, look.mode, { ...rules, hidesOne }, findings)
      : quarantined('unreadable', DAMAGED)
    if (verdict) {
      held.set(tool.name, { ...verdict, findings })
      continue
    }
    taken.push(tool)
    if (nobodys.length === 0 || definition === undefined || look.mode === 'always') continue
    const names = doubtedWith(nobodys, unmet.size < MOST_SIFTED, (isOther) =>
      checkDefinition(definition, { ...around, isOther, nobodys: undefined }, tool.text),
    )
    if (names.length > 0) unmet.set(tool.name, { hash: tool.hash, names })
  }
  return { held, taken, unmet }
}

// Whoever wrote them may have written thousands.
const MOST_NAMES = 20
const MOST_SIFTED = 200

/** The names with which there would be a doubt if somebody had them. @param sifts else there may be others among them */
function doubtedWith(
  names: readonly string[],
  sifts: boolean,
  check: (isOther: Names['has']) => readonly Finding[],
): string[] {
  const doubts = (isOther: Names['has']): boolean => check(isOther).some(({ level }) => level === 'doubt')
  if (!doubts(() => true)) return []
  const some = [...new Set(names)].slice(0, MOST_NAMES)
  return sifts ? some.filter((name) => doubts((spelling) => spelling === name)) : some
}

const DAMAGED = 'cannot be read as it was kept; it is looked at again when its server starts'

/** Undefined when the text is not what the fingerprint is of. */
function definitionOf({ hash, text }: Seen): Readonly<Record<string, unknown>> | undefined {
  try {
    const definition = JSON.parse(text) as Record<string, unknown>
    return fingerprint(definition) === hash ? definition : undefined
  } catch {
    return undefined
  }
}

type Verdict = Omit<Held, 'findings'>

/** A tool that a rule was about may be there again under another name. */
function losesRule({ tools, names, loses }: Look, pins: Pins | undefined): boolean {
  if (!loses || !pins) return false
  const there = names ?? new Set(tools.map(({ name }) => name))
  const gone = [...pins].flatMap(([name, pin]) => (there.has(name) || pin.startsWith('rejected ') ? [] : [name]))
  return gone.length > 0 && loses(gone)
}

function verdictOn(
  tool: Seen,
  mode: Mode,
  rules: Rules & { readonly hidesOne: boolean },
  findings: readonly Finding[],
): Verdict | undefined {
  const pin = rules.pins?.get(tool.name)
  if (pin === `rejected ${tool.hash}`) return quarantined('rejected', 'was rejected in a review')
  const approved = pin !== undefined && !pin.startsWith('rejected ')
  const bad = findings.filter(({ level }) => level === 'block' || (level === 'doubt' && mode !== 'always'))
  const codes = [...new Set(bad.map(({ code }) => code))].join(', ')
  const also = codes === '' ? '' : ` and has ${codes}`
  if (approved && (rules.frozen || mode !== 'always' || bad.length > 0))
    return { why: 'changed', code: 'E_TOOL_CHANGED', reason: `has changed since it was approved${also}` }
  if (bad.length > 0) return quarantined('flagged', `was found to have ${codes}`)
  if (rules.frozen) return quarantined('new', 'is not in the lock file, and nothing else is let in')
  if (rules.hidesOne && pin === undefined)
    return quarantined('new', 'is new, and a rule of the operator is about a tool that its server no longer has')
  if (mode === 'always') return undefined
  if (rules.flapping?.has(tool.name)) return quarantined('new', 'changed and changed back, so nobody has approved it')
  if (rules.broken)
    return quarantined('unreadable', 'cannot be compared with what was approved: the lock file is damaged')
  if (mode === 'first-use' && (rules.pins === undefined || (rules.open === true && pin === undefined))) return undefined
  return quarantined('new', 'is new and nobody has approved it yet')
}

const quarantined = (why: Held['why'], reason: string): Verdict => ({ why, code: 'E_TOOL_QUARANTINED', reason })

const surroundings = (
  { tools, strangers, reserved, names }: Look,
  nobodys: (spelling: string) => void,
): Parameters<typeof checkDefinition>[1] => ({
  own: names ?? new Set(tools.map(({ name }) => name)),
  reserved,
  isOther: strangers.spelled,
  nobodys,
  lookalikes: strangers.shaped,
  described: strangers.described,
})
