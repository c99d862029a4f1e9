import { toolsPrompt } from '../agent/tools-prompt.ts'
import type { Caller } from '../core/caller.ts'
import { expandMacros } from '../view/text-macros.ts'
import type { PromptHost } from './server-host.ts'

/** Instructions for the model of a client: the system prompt without an identity, up to `maxInstructions` characters. */
export const instructionsFor = (host: PromptHost, caller: Caller): string =>
  toolsPrompt(instructionTexts(host, caller), host.view(caller).limits.maxInstructions)

/** The texts of the instructions, after the caller's remembered facts, whose macros are not expanded. */
export async function instructionsWithFacts(host: PromptHost, caller: Caller) {
  const [texts, text] = [instructionTexts(host, caller), await host.remembered(caller)]
  return text === undefined ? texts : { ...texts, sections: [{ priority: FIRST, text }, ...texts.sections] }
}

const FIRST = -Number.MAX_VALUE

/** The texts of the instructions. Macros in them name the tools that this caller has. */
export function instructionTexts(host: PromptHost, caller: Caller) {
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
