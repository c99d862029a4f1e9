/**
 * Preload (`node --import`) for running the conformance suite on Node 20: the suite imports `globSync` from `fs`,
 * which Node has since 22, for a subcommand we do not use. Where it is missing, importers of `fs` inside the suite
 * get a module with everything `fs` has, and a `globSync` that throws.
 */

import * as fs from 'node:fs'
import { register } from 'node:module'

const SHIM = `export * from 'node:fs'
export { default } from 'node:fs'
export function globSync() { throw new Error('fs.globSync needs Node 22') }`

const HOOKS = `const shim = ${JSON.stringify(`data:text/javascript,${encodeURIComponent(SHIM)}`)}
export async function resolve(specifier, context, next) {
  const fromSuite = context.parentURL?.includes('/@modelcontextprotocol/conformance/')
  if (fromSuite && (specifier === 'fs' || specifier === 'node:fs')) return { url: shim, shortCircuit: true }
  return next(specifier, context)
}`

if (!('globSync' in fs)) register(`data:text/javascript,${encodeURIComponent(HOOKS)}`)
