/**
 * Preload (`node --import`) that gives the conformance suite a bearer token: the suite has no option for one. Every
 * request to the origin of CONFORMANCE_URL, by fetch, by undici or by node:http, carries CONFORMANCE_TOKEN; requests to
 * other origins do not.
 */

import http from 'node:http'
import { Agent, setGlobalDispatcher } from 'undici'

const { CONFORMANCE_URL, CONFORMANCE_TOKEN } = process.env

/** undici takes headers as a flat list, as an object or as anything that iterates over pairs. */
function withToken(headers) {
  const value = `Bearer ${CONFORMANCE_TOKEN}`
  if (Array.isArray(headers)) return [...headers, 'authorization', value]
  const pairs = typeof headers?.[Symbol.iterator] === 'function' ? Object.fromEntries(headers) : headers
  return { ...pairs, authorization: value }
}

if (CONFORMANCE_URL && CONFORMANCE_TOKEN) {
  const { origin } = new URL(CONFORMANCE_URL)
  const addToken = (dispatch) => (options, handler) =>
    dispatch(String(options.origin) === origin ? { ...options, headers: withToken(options.headers) } : options, handler)
  setGlobalDispatcher(new Agent().compose(addToken))

  const { request } = http
  http.request = (options, ...rest) => {
    const ours = `http://${options.hostname}:${options.port}` === origin
    return request(ours ? { ...options, headers: withToken(options.headers) } : options, ...rest)
  }
}
