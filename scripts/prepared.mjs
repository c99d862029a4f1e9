// Prints what is known of the bundled modules without their code, as JSON; see src/loader/stand-in.ts. The build runs it on
// what it made so far.
import { createRequire } from 'node:module'
import { isDeepStrictEqual } from 'node:util'

const { modules } = createRequire(import.meta.url)('../dist/load.cjs').load()

/** A schema that zod made. */
const isStandard = (value) => value?.['~standard'] !== undefined
const isPlain = (value) => value !== undefined && isDeepStrictEqual(JSON.parse(JSON.stringify(value)), value)

/** All that is plain, and the names of what is not. */
function sortedOut(given, place) {
  const pairs = Object.entries(given).filter(([, value]) => value !== undefined && !isStandard(value))
  const has = pairs.filter(([, value]) => typeof value === 'function').map(([name]) => name)
  const said = pairs.filter(([name]) => !has.includes(name) && name !== 'tools')
  for (const [name, value] of said) if (!isPlain(value)) throw new Error(`${place}.${name} cannot be written down`)
  return { says: Object.fromEntries(said), has }
}

/** As JSON where each character is a byte, which is faster to read. */
const written = (value) =>
  JSON.stringify(value).replaceAll(/[\u0080-\uffff]/g, (it) => `\\u${it.charCodeAt(0).toString(16).padStart(4, '0')}`)

/** All schemas, one after the other: most are never looked at, and those that are, are cut out. */
let schemas = ''

/** Where such a schema stands there; one in JSON is plain. */
function placeOf(schema) {
  if (!isStandard(schema)) return undefined
  const from = schemas.length
  schemas += written(schema['~standard'].jsonSchema.input({ target: 'draft-2020-12' }))
  return { at: [from, schemas.length] }
}

/** What options are made of no keys, where that can be written down. */
function emptyOf(schema) {
  const { value, issues } = schema['~standard'].validate({})
  return !issues && isPlain(value) ? value : undefined
}

/** Nothing else of it can be looked at. */
const closed = (what) =>
  new Proxy(what, {
    get(target, name) {
      if (!Object.hasOwn(target, name)) throw new Error(`${String(name)} was looked at`)
      return target[name]
    },
  })

/** Options whose templates, which are filled in on each machine, cannot be looked at. */
function guarded(value) {
  if (typeof value !== 'object' || value === null) return value
  return new Proxy(value, {
    get(target, name) {
      const found = target[name]
      if (typeof found === 'string' && found.includes('{{')) throw new Error('a template was looked at')
      return guarded(found)
    },
  })
}

/** How services are that are there with any settings; the others are not. Two in a list are enough to tell whether one matters. */
const THERE = { servers: ['empty', 'filled'], adapters: ['clients'], processes: ['there'] }
const SERVICES = {
  none: null,
  there: closed({}),
  empty: closed({ list: () => [] }),
  filled: closed({ list: () => [closed({}), closed({})] }),
  clients: closed({ list: () => [closed({ name: 'mcp' })] }),
}
const worlds = Object.entries(THERE).reduce(
  (made, [name, states]) => made.flatMap((world) => states.map((state) => ({ ...world, [name]: state }))),
  [{}],
)

/** What a check answers where the module has no options, by the services it looks at. Nothing where it looks at more. */
function answersOf(check, config) {
  const answers = []
  for (const world of worlds) {
    const looked = {}
    const services = new Proxy(SERVICES, {
      get(_target, name) {
        looked[name] = world[name] ?? 'none'
        return SERVICES[looked[name]]
      },
    })
    try {
      const view = { config: guarded(config), services, caller: closed({}), profile: closed({}) }
      const answer = check(closed(view))
      if (
        (answer === true || typeof answer === 'string') &&
        !answers.some((one) => isDeepStrictEqual(one.services, looked))
      )
        answers.push({ services: looked, answer })
    } catch {
      // Its code is asked each time.
    }
  }
  return answers
}

const prepared = {}
for (const [name, load] of Object.entries(modules)) {
  const module = (await load()).default
  const empty = module.config ? emptyOf(module.config) : {}
  const answers = (given, check) =>
    given[check] && empty ? { [check]: answersOf((view) => given[check](view), empty) } : {}
  prepared[name] = {
    ...sortedOut(module, name),
    config: module.config && { ...placeOf(module.config), empty },
    ...answers(module, 'enabled'),
    tools: Object.fromEntries(
      Object.entries(module.tools).map(([action, tool]) => {
        const { says, has } = sortedOut(tool, `${name}.${action}`)
        return [
          action,
          {
            // Whether it declares one is not seen in its stand-in.
            says: tool.run.length >= 2 ? { ...says, context: true } : says,
            has,
            input: placeOf(tool.input),
            output: placeOf(tool.output),
            ...answers(tool, 'available'),
          },
        ]
      }),
    ),
  }
}
process.stdout.write(JSON.stringify({ modules: written(prepared), schemas }))
