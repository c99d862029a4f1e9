import { toolUseMode } from '../agent/tool-use-mode.ts'
import { systemPrompt } from '../agent/tools-prompt.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { instructionsWithFacts } from '../server/instructions.ts'
import { type Args, readChoice, readOption, writeAnswer } from './args.ts'
import type { Io } from './io.ts'
import { withApp } from './open-app.ts'

/** `pegboard prompt [user prompt]`: the system prompt that describes the tools. */
export async function run(args: Args, io: Io): Promise<number> {
  const [agentId, role] = [readOption(args, 'agent'), readOption(args, 'role')]
  const userPrompt = args.positionals.join(' ')
  return withApp(args, io, async ({ app, caller }) => {
    const byProvider = toolUseMode(
      readOption(args, 'provider') ?? app.view(caller).profile.provider,
      app.server.textTools,
    )
    const mode = readChoice(args, 'mode', ['native', 'text'], byProvider)
    const prompt = systemPrompt({
      ...(await instructionsWithFacts(app.server, caller)),
      mode,
      ...omitUndefined({ agentId, role }),
      userPrompt,
    })
    writeAnswer(args, io, { mode, prompt }, `${prompt}\n`)
    return 0
  })
}
