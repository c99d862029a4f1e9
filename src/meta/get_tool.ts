import { hash } from 'node:crypto'
import { PegboardError } from '../core/errors.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import type { JsonSchema } from '../core/schema.ts'
import { riskOf } from '../core/tool.ts'
import { declareTools } from '../core/tool-declarations.ts'
import { valueResult } from '../core/tool-result.ts'
import { shortSignatureOf, signatureOf } from '../core/tool-signature.ts'
import { truncate } from '../core/truncate.ts'
import { createNotFoundError } from '../exec/refusals.ts'
import { executionOf, fullDescriptionOf } from '../view/listed-tools.ts'
import { portableSchema } from '../view/portable-schema.ts'
import type { View, ViewTool } from '../view/view.ts'
import { createHiddenError, createUnavailableError } from '../view/visibility.ts'
import { callState } from './call-needs.ts'
import { awaitServerOf, bareName } from './execute_tool.ts'
import { firstFitting, readMaxTokens } from './fit-answer.ts'
import type { MetaHost, MetaTool } from './meta-host.ts'
import { inputSchema, READS, readFormat, readText, TEXT } from './meta-input.ts'
import { describeMetaTool, type UnlistedTools } from './unlisted-tools.ts'

export const getTool = (host: MetaHost, unlisted: UnlistedTools): MetaTool => ({
  name: 'get_tool',
  title: 'Get tool',
  step: 'schema',
  description: () => 'Full schema, examples and side effects of one tool.',
  inputSchema: inputSchema({ name: TEXT }, 'name'),
  otherKeys: ['tool_name', 'format', 'hash', 'max_tokens'],
  hints: READS,
  async run(input, request) {
    const format = readFormat(input, 'get_tool', host, request.caller)
    const tokens = readMaxTokens(input, 'get_tool')
    const key = input.name === undefined && input.tool_name !== undefined ? 'tool_name' : 'name'
    const name = readText(input, key, 'get_tool', 200)
    const meta = unlisted.of(request.caller).get(bareName(name))
    if (meta) return valueResult(describeMetaTool(meta, host, request.caller))
    await awaitServerOf(host, name, request)
    const view = host.view(request.caller)
    const entry = lookUp(view, name)
    const { tool } = entry
    const declared = { id: tool.id, about: '', input: entry.input.json, output: tool.output }
    const owner = view.owners.find(({ id }) => id === tool.module)
    const execution = request.caller.era === 'legacy' ? executionOf(entry) : undefined
    const definition = {
      name: tool.id,
      description: fullDescriptionOf(entry),
      module: tool.module,
      risk_level: riskOf(tool.effect),
      tags: tool.tags,
      ...(format === 'ts'
        ? { declaration: declareTools([declared]) }
        : {
            parameters: portableSchema(entry.input.json, entry.schema),
            ...(tool.output ? { returns: portableSchema(tool.output, entry.schema) } : {}),
          }),
      examples: tool.examples.map(({ input: params, note }) => ({ name: tool.id, params, ...(note ? { note } : {}) })),
      side_effects: tool.sideEffects,
      irreversible: tool.effect === 'destructive',
      policy: 'auto',
      aliases: tool.aliases,
      ...callState(entry, owner, host),
      ...(tool.title === '' || tool.untitled ? {} : { title: tool.title }),
      // Other members could replace ours.
      ...omitUndefined({
        icons: tool.extra['icons'],
        annotations: tool.extra['annotations'],
        _meta: tool.extra['_meta'],
      }),
      ...(isRecord(tool.extra['_meta']) && tool.extra['_meta']['ui'] ? { ui: tool.extra['_meta']['ui'] } : {}),
      ...omitUndefined({ execution }),
    }
    const version = hashOf(JSON.stringify(definition))
    if (input['hash'] === version) return valueResult({ name: tool.id, unchanged: true, hash: version })
    const most = Math.min(tokens, host.view(request.caller).maxResultTokens())
    return valueResult(firstFitting(most, answersFor({ ...definition, hash: version }, entry.input.json)))
  },
})

/** Answers about a tool, each shorter than the one before. All of them have the parameters that a call needs. */
function* answersFor(
  shown: Json & { readonly name: string; readonly description: string },
  json: JsonSchema,
): Iterable<object> {
  yield shown
  const { name, description: fullDescription, parameters, declaration, returns, hash, risk_level } = shown
  const cut = (chars: number): string =>
    chars >= fullDescription.length
      ? fullDescription
      : `${truncate(fullDescription, chars)}…\n[NOTICE] Pegboard cut this description: ${chars} of ${fullDescription.length} characters are shown.`
  for (let chars = fullDescription.length; chars > MIN_USEFUL_CHARS; chars = Math.floor(chars * 0.8))
    yield { ...shown, description: cut(chars) }
  const schema = declaration === undefined ? { parameters } : { declaration }
  yield {
    name,
    description: cut(MIN_USEFUL_CHARS),
    risk_level,
    ...schema,
    ...(returns === undefined ? {} : { returns }),
    hash,
  }
  yield { name, description: cut(SHORT_CHARS), risk_level, ...schema, hash }
  yield { name, description: cut(SHORT_CHARS), risk_level, signature: signatureOf(json), hash }
  yield { name, signature: shortSignatureOf(json, SHORT_CHARS), hash }
}

/** Minimum length of a description that explains how to use the tool, and of one that only says what the tool is for. */
const MIN_USEFUL_CHARS = 1_024
const SHORT_CHARS = 200

/** Identifies what was shown, so that a caller that has it need not get it again. */
const hashOf = (text: string): string => hash('sha256', text, 'base64url').slice(0, 12)

/** Finds a visible tool by any spelling. @throws PegboardError the same errors as a call */
function lookUp(view: View, name: string): ViewTool {
  const found = view.resolve(name)
  if (found.kind === 'found') return found.tool
  if (found.kind === 'hidden' && found.hidden.kind === 'quarantined') throw createHiddenError(found)
  if (found.kind === 'hidden')
    throw new PegboardError('E_TOOL_HIDDEN', `${found.id} is not available: ${found.hidden.reason}.`)
  if (found.kind === 'ambiguous')
    throw new PegboardError('E_NOT_FOUND', `'${name}' could be ${found.candidates.join(' or ')}.`, {
      hint: 'Use one of these full names.',
    })
  if (found.down && found.suggestions.length + found.similar.length === 0)
    throw createUnavailableError(found.down, name)
  throw createNotFoundError(name, found, ['search_tools'], [])
}
