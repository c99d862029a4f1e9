import { z } from 'zod'

export const textToolsOption = z
  .enum(['off', 'fallback', 'force'])
  .optional()
  .describe(
    'How agents give tools to a model: native tool calling (off), text (force), or text only if native calling fails (fallback). Default: by provider.',
  )
