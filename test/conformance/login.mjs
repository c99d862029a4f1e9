import { spawn } from 'node:child_process'
import { once } from 'node:events'

/**
 * Runs `pegboard auth x` to its end, with the browser of `env`.
 * @returns {Promise<boolean>} whether it succeeded
 */
export async function logIn(cli, config, env) {
  const child = spawn(process.execPath, [cli, 'auth', 'x', '--config', config, '--timeout', '10'], {
    env,
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  const [code] = await once(child, 'exit')
  return code === 0
}

/**
 * The `auth` setting of a server for the client data of an auth scenario.
 * @param {string} scenario
 * @param {Record<string, string>} context of the scenario: `client_id`, `client_secret`, `private_key_pem`, …
 */
export function authOf(scenario, context) {
  const enterprise = scenario === 'auth/enterprise-managed-authorization'
  const headless = scenario.startsWith('auth/client-credentials') && 'client-credentials'
  return {
    type: enterprise ? 'enterprise' : headless || 'oauth',
    ...(enterprise && {
      idp: {
        tokenEndpoint: context.idp_token_endpoint,
        clientId: context.idp_client_id,
        idToken: context.idp_id_token,
      },
    }),
    ...(context.client_id && { clientId: context.client_id }),
    ...(context.client_secret && { clientSecret: context.client_secret }),
    ...(context.private_key_pem && { privateKey: context.private_key_pem }),
    ...(context.signing_algorithm && { algorithm: context.signing_algorithm }),
    ...(scenario === 'auth/basic-cimd' && {
      clientMetadataUrl: 'https://conformance-test.local/client-metadata.json',
    }),
  }
}
