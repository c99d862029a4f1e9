import { z } from 'pegboard'

/** The setting `access`: which tools of a module there are. */
export const access = (about: string) => z.enum(['none', 'read', 'write']).default('none').describe(about)

export const userAgent = z
  .string()
  .min(1)
  .default('{{user_agent}}')
  .describe('User-Agent header; default services.fetch.userAgent.')

interface View {
  readonly config: { readonly access: 'none' | 'read' | 'write' }
}

/** `available` of tools that need `access` to be at least `read`, or `write`. @param setting path of the module's settings */
export const accessChecks = (setting: string) => ({
  reads: ({ config }: View): true | string => config.access !== 'none' || `set ${setting}.access to "read" or "write"`,
  writes: ({ config }: View): true | string => config.access === 'write' || `set ${setting}.access to "write"`,
})

/** A setting with texts; default none. */
export const stringList = (description: string) => z.array(z.string().min(1)).default([]).describe(description)
