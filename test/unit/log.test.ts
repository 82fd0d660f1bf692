import { describe, expect, it } from '@jest/globals';
import { createLogger } from '../../process/log.ts';

function logged(ignoredFlags: readonly string[] = [], logLevel = 'info') {
  const lines: Record<string, unknown>[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line)) };
  return { lines, log: createLogger('worker', { logLevel, ignoredFlags }, destination) };
}

describe('createLogger', () => {
  it('writes the role, the level by name and an ISO time', () => {
    const { lines, log } = logged();
    log.info('hello');
    expect(lines).toEqual([
      { level: 'info', time: expect.stringMatching(/^\d{4}-.*Z$/), role: 'worker', msg: 'hello' },
    ]);
  });

  it('hides what is named token, authorization or password, however deep and however written', () => {
    const { lines, log } = logged();
    const request = { headers: { Authorization: 'Bearer x' }, list: [{ registryPassword: 'x' }], name: 'kept' };
    log.info({ request, taskToken: 'x', absentToken: undefined }, 'asked');
    expect(lines[0]).toMatchObject({
      taskToken: '[redacted]',
      request: { headers: { Authorization: '[redacted]' }, list: [{ registryPassword: '[redacted]' }], name: 'kept' },
    });
    expect(request.headers.Authorization).toBe('Bearer x');
  });

  it('survives objects that contain themselves', () => {
    const { lines, log } = logged();
    const self: Record<string, unknown> = { name: 'kept' };
    self.self = self;
    log.info({ self }, 'round');
    expect(lines[0]).toMatchObject({ self: { name: 'kept' } });
  });

  it('writes the message, code and cause of an error, and no other properties', () => {
    const { lines, log } = logged();
    const cause = Object.assign(new Error('connect refused'), { code: 'ECONNREFUSED' });
    const error = Object.assign(new Error('Cannot list pods', { cause }), { request: { headers: ['secret'] } });
    log.error({ err: error }, 'failed');
    log.error(error);
    const expected = { message: 'Cannot list pods', cause: { message: 'connect refused', code: 'ECONNREFUSED' } };
    expect(lines[0]).toMatchObject({ err: expected });
    expect(lines[1]).toMatchObject({ err: expected });
    expect(JSON.stringify(lines)).not.toContain('secret');
  });

  it('names once the flags that were given without effect', () => {
    expect(logged(['enable-pprof']).lines).toMatchObject([{ level: 'info', flags: ['enable-pprof'] }]);
    expect(logged([]).lines).toEqual([]);
  });
});
