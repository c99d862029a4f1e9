/** A named way to look at the catalogue: what a group of callers may see and which model stands behind them. Plain data. */
export interface Profile {
  readonly id: string
  /** Of the model behind the client, in lower case (`openai`, `novelai`); `''` when nobody said. */
  readonly provider: string
  readonly model: {
    readonly id: string
    /** Such as `tools`, `vision`; absent when nobody said, and then none is missing. */
    readonly capabilities?: readonly string[]
  }
  /** Switches that tools ask for by name; one that is not here is off. */
  readonly flags: Readonly<Record<string, boolean>>
  /** What its callers may do beside what their token gives them. */
  readonly permissions: readonly string[]
  /** Where its callers come from when they do not say: `mcp`. */
  readonly platform: string
  /** Options of modules that are other ones here, by module; put over those of the file. */
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
