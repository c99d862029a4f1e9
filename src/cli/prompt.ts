import { toolUseMode } from '../agent/mode.ts'
import { systemPrompt } from '../agent/prompt.ts'
import { toldWithFacts } from '../server/instructions.ts'
import type { Args } from './commands.ts'
import { type Io, writeJson } from './io.ts'
import { oneOf, text, withApp } from './open.ts'

/** `pegboard prompt [words of the user]`: what a model should be told of its tools. */
export async function run(args: Args, io: Io): Promise<number> {
  const agentId = text(args, 'agent')
  const role = text(args, 'role')
  const userPrompt = args.positionals.join(' ')
  return withApp(args, io, async ({ app, caller }) => {
    const byProvider = toolUseMode(text(args, 'provider') ?? app.view(caller).profile.provider, app.server.textTools)
    const mode = oneOf(args, 'mode', ['native', 'text'], byProvider)
    const prompt = systemPrompt({
      ...(await toldWithFacts(app.server, caller)),
      mode,
      ...(agentId === undefined ? {} : { agentId }),
      ...(role === undefined ? {} : { role }),
      userPrompt,
    })
    if (args.values['json'] === true) writeJson(io, { mode, prompt })
    else io.stdout(`${prompt}\n`)
    return 0
  })
}
