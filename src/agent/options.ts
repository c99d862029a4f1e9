import { z } from 'zod'

export const textToolsOption = z
  .enum(['off', 'fallback', 'force'])
  .optional()
  .describe(
    'How agents on pegboard/agent and the system_prompt give tools to a model, instead of by its provider: off natively, force as text, fallback natively and as text where that is refused.',
  )
