import { expect, it } from 'vitest'
import { serverFault } from '../../src/doctor/server-fault.ts'

const local = (reason: string) => serverFault({ reason, isRemote: false, hasHeaders: false })
const remote = (reason: string, hasHeaders = false) => serverFault({ reason, isRemote: true, hasHeaders })
const exited = (words: string) => local(`it exited with code 1: ${words}`)

it('names the cause of a local failure', () => {
  expect(local('command not found: npx')).toBe('server-command-missing')
  expect(local('its cwd does not exist: /work (mcpServers.a.cwd)')).toBe('server-path-missing')
  expect(local('server.js is not safe to run: every user of this machine can write it')).toBe('server-unsafe-file')
  expect(local('no answer within 30 s; it may still be downloading')).toBe('server-silent')
  expect(local('no answer within 30 s; it printed: connect ECONNREFUSED 127.0.0.1:6379')).toBe('server-needs-network')
  expect(local('no answer within 30 s; it printed: starting')).toBe('server-silent')
  expect(local('no answer within 30 s; its output is not MCP: "hello"')).toBe('server-not-mcp')
  expect(local('its output is not MCP: "hello"; it may not be an MCP server, or it logs to stdout')).toBe(
    'server-not-mcp',
  )
  expect(local('server.sh cannot start (EACCES)')).toBe('server-not-executable')
  expect(local('command "./server" is relative; give its full path, such as "${workspaceFolder}/server"')).toBe(
    'server-path-missing',
  )
  expect(local('it leads back to this Pegboard')).toBe('server-loop')
  expect(local('something else')).toBe('server-failed')
})

it('names the cause by the last words of a server that exited', () => {
  expect(exited('Error: BRAVE_API_KEY environment variable is required')).toBe('variable-missing')
  expect(exited('GITHUB_TOKEN is not set')).toBe('variable-missing')
  expect(exited('Please provide an API key')).toBe('variable-missing')
  expect(exited("browserType.launch: Executable doesn't exist at /home/me/.cache/ms-playwright/chrome")).toBe(
    'server-needs-browser',
  )
  expect(exited('Error: Could not find Chrome (ver. 131)')).toBe('server-needs-browser')
  expect(exited('error: current-context is not set')).toBe('server-needs-cluster')
  expect(exited('dial tcp 127.0.0.1:6443: connect: connection refused')).toBe('server-needs-cluster')
  expect(exited('Cannot connect to the Docker daemon at unix:///var/run/docker.sock')).toBe('server-needs-engine')
  expect(exited('npm error code ENOTFOUND')).toBe('server-needs-network')
  expect(exited("npm error 404  'no-such-server@*' is not in this registry.")).toBe('server-package-missing')
  expect(exited("Error: Cannot find module '/srv/server.js'")).toBe('server-path-missing')
  expect(exited('/usr/bin/python3: No module named mcp_server_git')).toBe('server-path-missing')
  expect(exited('Error [ERR_UNKNOWN_BUILTIN_MODULE]: No such built-in module: node:sqlite')).toBe('server-node-too-old')
  expect(exited('This server requires Node.js >= 22')).toBe('server-node-too-old')
  expect(exited("npm error 404  The requested resource 'x@1.0.0' could not be found")).toBe('server-package-missing')
  expect(exited('Usage: server [options]')).toBe('server-exited')
  expect(local('it was killed by SIGKILL')).toBe('server-exited')
})

it('names the cause of a remote failure', () => {
  expect(remote('ECONNREFUSED')).toBe('server-refused')
  expect(remote('its response is not MCP (Unexpected content type: text/html)')).toBe('server-wrong-path')
  expect(remote('it redirects to another address (HTTP 302), which is not followed')).toBe('server-wrong-path')
  expect(remote('HTTP 400')).toBe('server-rejects')
  expect(remote('ENOTFOUND')).toBe('server-host-unknown')
  expect(remote('EAI_AGAIN')).toBe('server-needs-network')
  expect(remote('its certificate has expired')).toBe('server-certificate')
  expect(remote('it does not use TLS; its address may need http://')).toBe('server-no-tls')
  expect(remote('it requires authorization (HTTP 401)')).toBe('server-login')
  expect(remote('it requires authorization (HTTP 401)', true)).toBe('server-forbidden')
  expect(remote('it requires a login: run `pegboard auth docs`')).toBe('server-login')
  expect(remote('HTTP 404; the path of the url may be wrong')).toBe('server-wrong-path')
  expect(remote('HTTP 503')).toBe('server-busy')
  // Servers of web pages answer this to POST.
  expect(remote('HTTP 501')).toBe('server-wrong-path')
})
