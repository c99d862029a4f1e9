import type {
  CallRow,
  ClientRow,
  DayRow,
  LaterKind,
  LaterRow,
  MissesAnswer,
  Overview,
  OwnerRow,
  ReviewServer,
  SearchAnswer,
  ServerAction,
  ServerDetail,
  TokenRow,
  ToolDetail,
  ToolRow,
  TryAnswer,
} from './api-types.ts'

/** What the page may see and do. Texts of servers are printable and hold no secrets and no invisible characters. */
export interface UiHost {
  overview(): Omit<Overview, 'url'>
  owners(): readonly OwnerRow[]
  /** @throws PegboardError E_NOT_FOUND, as do the others for an unknown name */
  server(id: string): ServerDetail
  /** @returns where to log in, for `login` */
  act(id: string, action: ServerAction): Promise<{ readonly url?: string }>
  /** Version of the list of tools. */
  version(): number
  tools(profile: string): readonly ToolRow[]
  tool(id: string, profile: string): ToolDetail
  search(query: string, profile: string, limit: number): Promise<SearchAnswer>
  try(id: string, input: unknown, profile: string, signal: AbortSignal): Promise<TryAnswer>
  /** The latest calls, oldest first. */
  calls(): readonly CallRow[]
  replay(id: string, signal: AbortSignal): Promise<TryAnswer>
  clients(): readonly ClientRow[]
  /** Tokens by day, of the last 30 days, oldest first. */
  usage(): Promise<readonly DayRow[]>
  tokens(): Promise<readonly TokenRow[]>
  revoke(id: string): Promise<void>
  later(): Promise<readonly LaterRow[]>
  stop(kind: LaterKind, id: string): Promise<void>
  review(): Promise<readonly ReviewServer[]>
  /** @param shown the fingerprints that the person saw, by tool */
  decide(server: string, shown: Readonly<Record<string, string>>, accept: boolean): Promise<void>
  /**
   * Enables or disables servers, APIs, modules and tools in the configuration file, which Pegboard then applies.
   * @returns the id of the change for `pegboard undo`, if anything changed
   */
  switch(names: readonly string[], enabled: boolean): Promise<{ readonly undo?: string }>
  /** Measures proposals, which takes some seconds. */
  misses(): Promise<MissesAnswer>
  /** Writes a proposal of the last `misses` to the configuration file. */
  addAlias(tool: string, alias: string): Promise<{ readonly undo?: string }>
  /** Calls the listener when something changed, with a finished call if it was one. Returns how to stop. */
  onChange(listener: (call?: CallRow) => void): () => void
}
