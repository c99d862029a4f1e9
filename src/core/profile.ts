/** A named set of permissions and defaults for a group of callers. Plain data. */
export interface Profile {
  readonly id: string
  /** The model's provider in lower case (`openai`, `novelai`); `''` if unknown. */
  readonly provider: string
  readonly model: {
    readonly id: string
    /** For example `tools`, `vision`. Absent if unknown: then the model counts as having all of them. */
    readonly capabilities?: readonly string[]
  }
  /** Flags that tools query by name; a missing flag is off. */
  readonly flags: Readonly<Record<string, boolean>>
  /** Permissions of its callers in addition to those of their tokens. */
  readonly permissions: readonly string[]
  /** The platform of callers that do not name one (default `mcp`). */
  readonly platform: string
  /** Module options that override those of the file, by module. */
  readonly config: Readonly<Record<string, Readonly<Record<string, unknown>>>>
}

export const DEFAULT_PROFILE = 'default'

export const defaultProfile: Profile = {
  id: DEFAULT_PROFILE,
  provider: '',
  model: { id: '' },
  flags: {},
  permissions: [],
  platform: 'mcp',
  config: {},
}
