import { toolsPrompt } from '../agent/prompt.ts'
import type { Caller } from '../core/context.ts'
import { expandMacros } from '../view/macros.ts'
import type { ServerHost } from './host.ts'

/** What a client's model is told when it connects: the system prompt without an identity. Under 2 KB, because clients cut there. */
export const instructionsFor = (host: ServerHost, caller: Caller): string =>
  toolsPrompt(toldBy(host, caller), host.view(caller).limits.maxInstructions)

/** The same, after what this caller had remembered: that is its own, and no macros. */
export async function toldWithFacts(host: ServerHost, caller: Caller) {
  const [told, text] = [toldBy(host, caller), await host.remembered(caller)]
  return text === undefined ? told : { ...told, sections: [{ priority: FIRST, text }, ...told.sections] }
}

const FIRST = -Number.MAX_VALUE

/** What the operator and the modules add comes behind the tools. Macros in it name the tools that this caller has. */
export function toldBy(host: ServerHost, caller: Caller) {
  const view = host.view(caller)
  const sections = [
    ...(host.instructions === undefined ? [] : [{ priority: 0, text: host.instructions }]),
    ...host.sections(caller),
  ]
  return {
    view,
    exposure: host.exposure(caller),
    surface: host.surface,
    sections: sections.map(({ priority, text }) => ({ priority, text: expandMacros(text, view) })),
  }
}
