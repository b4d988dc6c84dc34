"""The stages of an audit, in the order in which data flows through them: photos, faces, counterfactuals, answers,
statistics, report. Importing the package loads none of them.
"""
