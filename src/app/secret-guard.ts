import type { Config } from '../config/load-config.ts'
import type { Caller } from '../core/caller.ts'
import { knownSecrets, secretsOf } from '../core/known-secrets.ts'
import { once } from '../core/once.ts'
import { createInspections, inspectObject, inspectQuestion } from '../exec/inspect-data.ts'
import type { TokenStore } from '../upstream/oauth/token-store.ts'
import type { View } from '../view/view.ts'
import { createLearnedSecrets } from './learned-secrets.ts'

/** Keeps secrets out of what clients, logs and stores receive. */
export type SecretGuard = ReturnType<typeof createSecretGuard>

export interface SecretGuardOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  config(): Config
  view(caller: Caller): View
  /** Called with learned secrets, such as tokens of servers. */
  readonly onLearned: ((secrets: readonly string[]) => void) | undefined
}

export function createSecretGuard({ env, config, view, onLearned }: SecretGuardOptions) {
  // Servers started with an earlier configuration may still send its secrets.
  const initial = config().secrets
  const environment = secretsOf(env)
  const inspections = createInspections([...initial, ...environment])
  const learned = createLearnedSecrets((secrets) => {
    update()
    onLearned?.(secrets)
  })
  /** Call it when the configuration has changed. */
  function update(): void {
    inspections.setSecrets([...initial, ...config().secrets, ...environment, ...learned.secrets()])
  }
  /** The secrets of the environment of this process; undefined if it has none. */
  const ofEnvironment = once(() => knownSecrets(environment))
  const inspectionFor = (caller: Caller, owner: string) =>
    inspections.of(view(caller).policy.tripwire({ module: owner, tripwire: 'warn' }), undefined)
  return {
    inspections,
    ofEnvironment,
    hide: (text: string): string => inspections.hide(ofEnvironment()?.hide(text) ?? text),
    /**
     * An answer of an owner without credentials, as the policy of the caller demands.
     * @throws PegboardError E_SECRET_BLOCKED
     */
    inspectAnswer<T extends object>(caller: Caller, owner: string, answer: T): T {
      const inspection = inspectionFor(caller, owner)
      return inspection ? inspectObject(answer, inspection) : answer
    },
    /** A question of an owner without credentials. @throws PegboardError E_SECRET_BLOCKED */
    inspectQuestion(caller: Caller, owner: string, params: unknown): unknown {
      const inspection = inspectionFor(caller, owner)
      return inspection ? inspectQuestion(params, inspection) : params
    },
    /** Wraps a store, so that the tokens in it are treated as secrets. */
    learnFrom: (store: TokenStore): TokenStore => ({ ...store, ...learned.from(store) }),
    update,
  }
}
