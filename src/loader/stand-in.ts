import { messageOf } from '../core/errors.ts'
import type { StartContext, ToolDef, ToolDraft, ToolModule, ToolView } from '../core/module.ts'
import { once } from '../core/once.ts'
import { isRecord } from '../core/record.ts'
import type { JsonSchema } from '../core/schema.ts'
import { deferred, type Prepared } from './deferred.ts'

/** How a service is. */
type State = keyof typeof STATES

/** What a check answers while the module has the options that it has without any, and these services are so. */
export interface Answer {
  readonly services: Readonly<Record<string, State>>
  readonly answer: true | string
}

/** From where to where its JSON Schema stands among all others, and what it makes of no keys. */
type PreparedSchema = Pick<Prepared, 'empty'> & { readonly at: readonly number[] }

export interface PreparedTool {
  /** All that is plain. */
  readonly says: Omit<ToolDef, 'input' | 'output' | 'available' | 'assemble' | 'run'>
  readonly input?: PreparedSchema
  readonly output?: PreparedSchema
  /** Which of its checks it has. */
  readonly has: readonly string[]
  readonly available?: readonly Answer[]
}

/** A module of ours, as far as it can be told without its code. The build writes it down. */
export interface PreparedModule {
  readonly says: Pick<ToolModule, 'name' | 'description'>
  readonly config?: PreparedSchema
  readonly has: readonly string[]
  readonly enabled?: readonly Answer[]
  readonly tools: Readonly<Record<string, PreparedTool>>
}

// biome-ignore lint/suspicious/noExplicitAny: what a module's options are is its own business
type AnyDef = ToolDef<any, any>

/**
 * Stands for a module whose code is read when something is asked of it that was not prepared: most modules wait for a
 * setting that most configurations do not have. Such a module is started then, too. From then on it answers itself, since
 * what it has done may decide.
 */
export function standIn(
  known: PreparedModule,
  schemaAt: (at: readonly number[]) => JsonSchema,
  read: () => ToolModule,
): ToolModule {
  const isWithoutOptions = comparison(known)
  let isRead = false
  let waiting: StartContext<unknown> | undefined
  let started: void | Promise<void>
  const code = once(() => {
    const module = read()
    isRead = true
    if (waiting && !waiting.signal.aborted) started = startLate(module, waiting)
    waiting = undefined
    return module
  })
  const said = (answers: readonly Answer[] | undefined, view: Partial<ToolView<unknown>>): true | string | undefined =>
    !isRead && answers && isWithoutOptions(view.config) ? answerNow(answers, view) : undefined
  const schemaOf = <Schema>(make: () => Schema, { at, empty }: PreparedSchema): Schema =>
    deferred(make, { json: () => schemaAt(at), ...(empty && { empty }) })
  const toolOf = (action: string): AnyDef => code().tools[action] as AnyDef

  const tools = Object.entries(known.tools).map(
    ([action, { says, input, output, has, available }]): [string, AnyDef] => {
      const own = input && schemaOf(() => toolOf(action).input, input)
      return [
        action,
        {
          ...says,
          ...(own && { input: own }),
          ...(output && { output: schemaOf(() => toolOf(action).output, output) }),
          ...(has.includes('available') && {
            available: (view) => said(available, view) ?? toolOf(action).available?.(view) ?? true,
          }),
          ...(has.includes('assemble') && {
            assemble(view, draft) {
              const tool = toolOf(action)
              const made = tool.assemble?.(view, { ...draft, input: tool.input ?? draft.input }) as ToolDraft | null
              return made && made.input === tool.input ? { ...made, input: draft.input } : made
            },
          }),
          // Declares nothing: that it takes a context is among what it says.
          async run(...given) {
            const tool = toolOf(action)
            await started
            return tool.run(...given)
          },
        },
      ]
    },
  )
  const has = (name: string): boolean => known.has.includes(name)
  return {
    ...known.says,
    ...(known.config && { config: schemaOf(() => code().config, known.config) as NonNullable<ToolModule['config']> }),
    ...(has('enabled') && { enabled: (view) => said(known.enabled, view) ?? code().enabled?.(view) ?? true }),
    ...(has('promptSection') && { promptSection: (view) => code().promptSection?.(view) }),
    ...(has('notices') && { notices: (view) => code().notices?.(view) ?? [] }),
    ...(has('start') && {
      start(ctx) {
        if (!isRead && isWithoutOptions(ctx.config)) waiting = ctx
        else {
          waiting = undefined
          return code().start?.(ctx)
        }
      },
    }),
    ...(has('stop') && { stop: () => (isRead ? code().stop?.() : undefined) }),
    tools: Object.fromEntries(tools),
  }
}

async function startLate(module: ToolModule, ctx: StartContext<unknown>): Promise<void> {
  try {
    await module.start?.(ctx)
  } catch (error) {
    ctx.log.error('a module did not start', { error: messageOf(error) })
  }
}

/** Not there, there whatever it is like, or what its list has: nothing, something, or no more than the connected clients. */
const STATES = {
  none: ({ service }: Looked) => service === null,
  there: ({ service }: Looked) => isRecord(service),
  empty: ({ list }: Looked) => list()?.length === 0,
  filled: ({ list }: Looked) => (list()?.length ?? 0) > 0,
  clients: ({ list }: Looked) => list()?.every(({ name }) => name === 'mcp') === true,
}

/** A service, and what it lists. */
interface Looked {
  readonly service: unknown
  list(): readonly { readonly name?: string }[] | undefined
}

function answerNow(answers: readonly Answer[], { services }: Partial<ToolView<unknown>>): true | string | undefined {
  const [first] = answers
  if (first && Object.keys(first.services).length === 0) return first.answer
  // Fifty servers are not listed once for each answer that there may be.
  const looked = new Map<string, Looked>()
  const lookAt = (name: string): Looked => {
    const service = (services as Readonly<Record<string, unknown>> | undefined)?.[name]
    const list = once(() =>
      isRecord(service) && typeof service['list'] === 'function' ? service['list']() : undefined,
    )
    const made = { service, list }
    looked.set(name, made)
    return made
  }
  const isSo = ([name, state]: [string, State]): boolean => STATES[state](looked.get(name) ?? lookAt(name))
  return answers.find((one) => Object.entries(one.services).every(isSo))?.answer
}

/** Whether options are those that a module has without any. One without a schema is given what the operator wrote. */
function comparison({ config }: PreparedModule): (options: unknown) => boolean {
  const known = new WeakMap<object, boolean>()
  const empty = config ? config.empty : {}
  return (options) => {
    if (typeof options !== 'object' || options === null || !empty) return false
    const found = known.get(options) ?? isLike(empty, options)
    known.set(options, found)
    return found
  }
}

/** Whether a value is the prepared one. What has a template in it is different on each machine, and no answer depends on it. */
function isLike(prepared: unknown, value: unknown): boolean {
  if (prepared === value) return true
  if (typeof prepared === 'string') return typeof value === 'string' && prepared.includes('{{')
  if (typeof prepared !== 'object' || prepared === null || typeof value !== 'object' || value === null) return false
  const keys = Object.keys(prepared)
  return (
    Array.isArray(prepared) === Array.isArray(value) &&
    keys.length === Object.keys(value).length &&
    keys.every((key) => Object.hasOwn(value, key) && isLike(Reflect.get(prepared, key), Reflect.get(value, key)))
  )
}
