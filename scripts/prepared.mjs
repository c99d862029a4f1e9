// Prints what the schemas of the bundled modules say, as JSON; see src/loader/deferred.ts. The build runs it on what it made so far.
import { createRequire } from 'node:module'
import { isDeepStrictEqual } from 'node:util'

const { modules } = createRequire(import.meta.url)('../dist/load.cjs').load()

/** Of what zod made; raw JSON Schema says it itself. */
const jsonOf = (schema) =>
  schema?.['~standard'] && { json: { ...schema['~standard'].jsonSchema.input({ target: 'draft-2020-12' }) } }

/** What it makes of no keys, where that can be written down. */
function emptyOf(schema) {
  const { value, issues } = schema?.['~standard'].validate({}) ?? { issues: true }
  return !issues && isDeepStrictEqual(JSON.parse(JSON.stringify(value)), value) ? { empty: value } : {}
}

const prepared = {}
for (const [name, load] of Object.entries(modules)) {
  const { config, tools } = (await load()).default
  prepared[name] = {
    ...(config && { config: { ...jsonOf(config), ...emptyOf(config) } }),
    tools: Object.fromEntries(
      Object.entries(tools).map(([tool, { input, output }]) => [
        tool,
        { input: jsonOf(input), output: jsonOf(output) },
      ]),
    ),
  }
}
process.stdout.write(JSON.stringify(prepared))
