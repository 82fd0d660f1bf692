import { describe, expect, it } from '@jest/globals';
import { type Amount, amountOf, evaluateExpression } from '../../api/sidecar-set/resource-expression.ts';

function quantity(text: string): Amount {
  const amount = amountOf(text);
  if (amount === undefined) throw new Error(`${text} is no quantity`);
  return amount;
}

function cpu(text: string, value: string | number = 1) {
  return resultOf(evaluateExpression(text, 'cpu', typeof value === 'number' ? value : quantity(value)));
}

function memory(text: string, value: string | number = 1) {
  return resultOf(evaluateExpression(text, 'memory', typeof value === 'number' ? value : quantity(value)));
}

function resultOf(evaluated: ReturnType<typeof evaluateExpression>): string {
  return evaluated.kind === 'amount' ? evaluated.text : `failed: ${evaluated.problem}`;
}

describe('expressions of resourcesPolicy', () => {
  it('SCS-70: gives the results of the worked cases', () => {
    expect(cpu('max(cpu*50%,50m)', '400m')).toBe('200m');
    expect(memory('max(memory*20% + 100Mi, 200Mi)', '800Mi')).toBe('260Mi');
    expect(cpu('min(max(max(max(0.5,0.5*cpu),cpu-1.0),cpu-1.0),3.0)', '500m')).toBe('500m');
  });

  it.each([
    ['1+2*3', '7'],
    ['(1+2)*3', '9'],
    ['8/2/2', '2'],
    ['5-2-1', '2'],
    ['-(-3)', '3'],
    ['1e3', '1k'],
    ['.5', '500m'],
    ['50%', '500m'],
    [' MAX( 1 , Cpu ) ', '1'],
    ['min(2, 100m)', '100m'],
    ['1k', '1k'],
    ['0', '0'],
  ])('SCS-66: evaluates %j', (text, expected) => {
    expect(cpu(text)).toBe(expected);
  });

  it.each([
    ['', 'unexpected text at the end'],
    ['1 2', 'unexpected text at "2"'],
    ['max(1)', 'expected "," at ")"'],
    ['max(1,2,3)', 'expected ")" at ",3)"'],
    ['memory', 'unknown name "memory"'],
    ['cpu $ 2', 'unexpected text at "$ 2"'],
    [`${'('.repeat(300)}1`, 'nests too deeply'],
    [' '.repeat(5_000), 'must not be longer than 4096 characters'],
  ])('SCS-66: does not accept %j', (text, problem) => {
    expect(cpu(text)).toBe(`failed: ${problem}`);
  });

  it('SCS-67: tells numbers from quantities', () => {
    expect(cpu('cpu*3', '333m')).toBe('999m');
    expect(cpu('cpu/3', '1')).toBe('333m');
    expect(cpu('cpu + 0.5', '250m')).toBe('750m');
    expect(cpu('0.0005 + cpu', '1m')).toBe('1m');
    expect(cpu('cpu*cpu', '1')).toBe('failed: a quantity cannot be multiplied by a quantity');
    expect(cpu('2/cpu', '1')).toBe('failed: nothing can be divided by a quantity');
    expect(cpu('cpu/0', '1')).toBe('failed: division by zero');
    expect(cpu('0-cpu', '1')).toBe('failed: the result is negative');
    expect(cpu('1e300*1e300', '1')).toBe('failed: a number is too large');
    expect(cpu('cpu*1e30', '1')).toBe('failed: a quantity is too large');
    expect(cpu('2.5')).toBe('2500m');
    expect(memory('1000')).toBe('1k');
    expect(memory('memory*0.5', '1Gi')).toBe('512Mi');
  });

  it('SCS-67a: computes in doubles, and truncates', () => {
    // 4.35 * 100 is 434.99999999999994
    expect(cpu('cpu*4.35', '100m')).toBe('434m');
    expect(cpu('cpu*110%', '1')).toBe('1100m');
  });

  it('SCS-68: gives another result for the number 1 than for an amount', () => {
    expect(cpu('cpu - 2')).toBe('failed: the result is negative');
    expect(memory('memory - 1Gi')).toBe('failed: the result is negative');
    expect(memory('max(0, memory - 1Gi)')).toBe('0');
    expect(cpu('cpu * cpu')).toBe('1');
    expect(cpu('2 / cpu')).toBe('2');
  });

  it.each(['200MB', '100K', '1Ei', '1E', '1e3m'])(
    'SCS-69: reads the unknown suffix of %s as 0, and says so',
    (text) => {
      const evaluated = evaluateExpression(`max(${text}, 0)`, 'memory', 1);
      expect(evaluated).toEqual({ kind: 'amount', text: '0', ignored: [text] });
    },
  );
});
