import { toCanonicalJson } from '../core/canonical.ts'
import { PegboardError } from '../core/errors.ts'
import { asRecord, type Json } from '../core/is-record.ts'
import { findNearest } from '../core/tool-names.ts'
import { truncate } from '../core/truncate.ts'
import type { Exchange } from './cassette.ts'

const SHOWN = 300

/** The error for a request without a recorded answer. It names the most similar request that has one. */
export function notRecorded(server: string, method: string, params: Json, calls: readonly Exchange[]): PegboardError {
  const near = nearestCall(method, params, calls)
  const rest = near ? `The nearest recorded call is ${describe(method, near.params)}` : `No ${method} is recorded`
  return new PegboardError(
    'E_NOT_RECORDED',
    `the recording of ${server} has no answer to ${describe(method, params)}. ${rest}.`,
    { hint: `To add it, run pegboard record and make this call.` },
  )
}

/** The recorded call of the same tool with the fewest other arguments, else of the most similar name, else of any. */
function nearestCall(method: string, params: Json, calls: readonly Exchange[]): Exchange | undefined {
  const same = calls.filter((one) => one.method === method)
  const name = nameOf(params)
  const [spelled] = findNearest(name, [...new Set(same.map((one) => nameOf(one.params)))])
  const named = same.filter((one) => nameOf(one.params) === name)
  const similar = same.filter((one) => nameOf(one.params) === spelled)
  const found = [named, similar, same].find((some) => some.length > 0) ?? []
  return found
    .map((one) => ({ one, distance: differences(argumentsOf(params), argumentsOf(one.params)) }))
    .sort((a, b) => a.distance - b.distance)[0]?.one
}

/** The tool or prompt, or the address of a resource. */
const nameOf = ({ name, uri }: Json): string => String(name ?? uri ?? '')

const argumentsOf = (params: Json): Json => asRecord(params['arguments'])

/** Missing and other keys count more than other values. */
function differences(one: Json, other: Json): number {
  let sum = 0
  for (const key of new Set([...Object.keys(one), ...Object.keys(other)])) {
    if (!Object.hasOwn(one, key) || !Object.hasOwn(other, key)) sum += 2
    else if (toCanonicalJson(one[key]) !== toCanonicalJson(other[key])) sum += 1
  }
  return sum
}

/** `create_issue {"title":"…"}`. */
function describe(method: string, params: Json): string {
  if (method === 'tools/call' || method === 'prompts/get')
    return truncate(`${nameOf(params)} ${toCanonicalJson(argumentsOf(params))}`, SHOWN)
  if (method === 'resources/read') return truncate(nameOf(params), SHOWN)
  return truncate(`${method} ${toCanonicalJson(params)}`, SHOWN)
}
