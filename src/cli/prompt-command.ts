import { toolUseMode } from '../agent/tool-use-mode.ts'
import { systemPrompt } from '../agent/tools-prompt.ts'
import { instructionsWithFacts } from '../server/instructions.ts'
import { type Args, oneOf, readOption } from './args.ts'
import { type Io, writeJson } from './io.ts'
import { withApp } from './open-app.ts'

/** `pegboard prompt [user prompt]`: the system prompt that describes the tools. */
export async function run(args: Args, io: Io): Promise<number> {
  const agentId = readOption(args, 'agent')
  const role = readOption(args, 'role')
  const userPrompt = args.positionals.join(' ')
  return withApp(args, io, async ({ app, caller }) => {
    const byProvider = toolUseMode(
      readOption(args, 'provider') ?? app.view(caller).profile.provider,
      app.server.textTools,
    )
    const mode = oneOf(args, 'mode', ['native', 'text'], byProvider)
    const prompt = systemPrompt({
      ...(await instructionsWithFacts(app.server, caller)),
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
