/** The part that the tests use; the package has no types. */
declare module 'oidc-provider' {
  import type { RequestListener } from 'node:http'

  interface Found {
    readonly accountId?: string
    readonly clientId: string
    readonly scope?: string
    readonly aud?: string | string[]
    readonly exp: number
    destroy(): Promise<void>
  }
  interface Context {
    readonly body?: Record<string, unknown>
    readonly response: { get(header: string): string }
    set(header: string, value: string): void
  }
  export default class Provider {
    constructor(issuer: string, configuration: object)
    callback(): RequestListener
    use(middleware: (ctx: Context, next: () => Promise<void>) => Promise<void>): void
    on(event: string, listener: (...args: unknown[]) => void): void
    readonly AccessToken: { find(token: string): Promise<Found | undefined> }
    readonly RefreshToken: { find(token: string): Promise<Found | undefined> }
  }
}
